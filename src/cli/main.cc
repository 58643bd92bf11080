// attenio: the command line. One file per subcommand; see command.h for what they share.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>

#include "attenio/version.h"
#include "cli/command.h"

namespace attenio::cli {
namespace {

int Run(int argc, char** argv) {
  CLI::App app("Attention on CPUs: compute it, check it, time it, and see what data it moves.", "attenio");
  app.set_version_flag("--version", fmt::format("attenio {}.{}.{}", ATTENIO_VERSION_MAJOR, ATTENIO_VERSION_MINOR,
                                                ATTENIO_VERSION_PATCH));
  app.require_subcommand(1);
  Action action;
  AddInfo(app, &action);
  AddAttend(app, &action);
  AddConformance(app, &action);
  AddCheck(app, &action);
  AddProject(app, &action);
  AddBench(app, &action);
  AddIo(app, &action);
  AddCalibrate(app, &action);
  AddAccuracy(app, &action);
  AddReport(app, &action);
  // Of an unknown word CLI11 only says that a subcommand is missing.
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  if (argc > 1 && argv[1][0] != '-' && std::find(names.begin(), names.end(), argv[1]) == names.end()) {
    Refuse("{}: no such subcommand; expected one of {}", argv[1], fmt::join(names, ", "));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return action();
}

}  // namespace
}  // namespace attenio::cli

int main(int argc, char** argv) {
  using namespace attenio::cli;
  int code = kExitUsage;
  try {
    code = Run(argc, argv);
  } catch (const InputError& error) {
    fmt::print(stderr, "attenio: {}\n", error.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "attenio: not enough memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "attenio: {}\n", error.what());
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    fmt::print(stderr, "attenio: cannot write to standard output\n");
    return kExitUsage;
  }
  return code;
}
