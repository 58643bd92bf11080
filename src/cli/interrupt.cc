#include "cli/interrupt.h"

#include <csignal>

namespace attenio::cli {
namespace {

volatile std::sig_atomic_t received = 0;

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int signal) { received = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // the second one has its usual effect
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int Interrupted() { return received; }

}  // namespace attenio::cli
