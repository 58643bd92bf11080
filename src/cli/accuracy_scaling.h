// attenio accuracy --scaling: how time grows with the length, and where the polynomial path becomes the faster one.
#ifndef ATTENIO_SRC_CLI_ACCURACY_SCALING_H_
#define ATTENIO_SRC_CLI_ACCURACY_SCALING_H_

#include <cstdint>

#include "cli/command.h"

namespace attenio::cli {

struct ScalingOptions {
  int64_t d = 32;
  int64_t longest = 1 << 20;        // of the polynomial path
  int64_t longest_exact = 1 << 16;  // of exact attention
  double bound = 1, max_error = 0.025;
  uint64_t seed = 1;
  int repeats = 3;
  bool json = false;
};

// Queries and keys on spheres (distribution `bounded`). Prints the best time of exact attention up to `longest_exact` and of the
// polynomial path up to `longest`, doubling n; the slopes of log time over log n (the polynomial's from n = 8 features on); and the
// n at which the two take the same time, measured and as the plan predicts it. Lengths that are too short for a slope or a
// crossing leave those out.
int RunScaling(const ScalingOptions& options, const DefaultExecutor& executor);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_ACCURACY_SCALING_H_
