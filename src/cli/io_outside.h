#ifndef ATTENIO_SRC_CLI_IO_OUTSIDE_H_
#define ATTENIO_SRC_CLI_IO_OUTSIDE_H_

#include <string>

#include "cli/io_report.h"

namespace attenio::cli {

struct OutsideOptions {
  std::string child;         // what a run under valgrind computes: "none", "naive" or a schedule
  int64_t naive_rows = 32;  // of the naive version: each moves as much as the next
};

// attenio io --outside: runs the executor (and a naive version) under valgrind's cachegrind with this machine's L1 and L2 as
// its caches, and prints line fills of the L2: predicted, simulated here, and counted there less those of a run that computes
// nothing. One thread, one head, a kernel that valgrind knows (f32-avx2 unless `kernel` says otherwise). Fails when a count is
// more than 10 % from the simulation. Throws InputError without valgrind.
int RunOutside(const OutsideOptions& outside, IoProblem problem, const std::string& dtype, const std::string& kernel, bool json);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_IO_OUTSIDE_H_
