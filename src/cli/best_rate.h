// The best rate of a short piece of work: other programs only ever slow it down.
#ifndef ATTENIO_SRC_CLI_BEST_RATE_H_
#define ATTENIO_SRC_CLI_BEST_RATE_H_

#include <algorithm>
#include <cstdint>

#include "cli/command.h"

namespace attenio::cli {

// Seconds of one timing, many time slices of the scheduler, and of how many the best counts.
struct RateEffort {
  double slice = 0.02;
  int repeats = 7;
};
inline RateEffort rate_effort;  // set once, before anything is measured

// Units per second: the best of rate_effort.repeats timings of work(), which does `units`.
template <class Work>
double BestRate(double units, Work work) {
  double start = Seconds();
  work();
  const double once = std::max(Seconds() - start, 1e-7);
  const int64_t calls = std::clamp<int64_t>(static_cast<int64_t>(rate_effort.slice / once), 1, 1 << 22);
  double best = 0;
  for (int r = 0; r < rate_effort.repeats; ++r) {
    start = Seconds();
    for (int64_t i = 0; i < calls; ++i) work();
    best = std::max(best, units * static_cast<double>(calls) / std::max(Seconds() - start, 1e-9));
  }
  return best;
}

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_BEST_RATE_H_
