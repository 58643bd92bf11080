// One problem of `attenio accuracy`: every method on it, timed in turn with exact attention and compared with the oracle.
#ifndef ATTENIO_SRC_CLI_ACCURACY_STUDY_H_
#define ATTENIO_SRC_CLI_ACCURACY_STUDY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/accuracy_data.h"
#include "cli/accuracy_table.h"
#include "cli/command.h"
#include "cli/operands.h"

namespace attenio::cli {

struct AccuracyOptions {
  std::vector<std::string> input, distributions = DistributionNames(),
                                  methods{"exact", "poly", "groups", "taylor", "performer", "nystrom"};
  std::vector<int64_t> n{2048}, d{32}, features{256};
  std::vector<double> bounds{1}, max_errors{1e-1, 1e-2};
  std::vector<int> degrees;
  double between = 4;
  int64_t heads = 0, kv_heads = 0;
  uint64_t seed = 1;
  int repeats = 3;
  std::string dtype, out, kernel;
  bool causal = false, simulate = false, json = false, scaling = false;
  int64_t longest = 1 << 20;
  int threads = 0;
};

// A problem and what is known about it before any method runs.
struct Subject {
  std::string distribution;
  std::optional<double> bound;
  Problem problem;
};

// Adds one line for each method and parameter to `table`; false when a certificate was broken.
bool RunStudy(const AccuracyOptions& options, const DefaultExecutor& executor, Subject* subject, AccuracyTable* table);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_ACCURACY_STUDY_H_
