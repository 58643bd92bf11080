// What `attenio bench` can do to a case: other distributions of q and k, and score modifiers.
#ifndef ATTENIO_SRC_CLI_BENCH_INPUT_H_
#define ATTENIO_SRC_CLI_BENCH_INPUT_H_

#include <string>
#include <vector>

#include "cli/bench_case.h"
#include "cli/command.h"

namespace attenio::cli {

struct BenchInput {
  std::string dist = "uniform";
  double bound = 0;    // dist "bounded": largest |score|
  std::string window;  // "LEFT,RIGHT"
  std::string mask;    // "", "bool" or a floating-point type: added
  double softcap = 0;
  bool sink = false, alibi = false;

  void AddTo(CLI::App& app);
  // Throws InputError for a name that does not exist.
  void Check() const;
};

// The case's problem with all of that. Throws InputError when a mask would take more than 2 GiB.
Problem MakeProblem(const BenchCase& bench_case, const BenchInput& input);

// 2 batch q_heads (d_qk + d_v) times the allowed (query, key) pairs; masks are not looked at.
double AllowedFlops(const Problem& problem);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_BENCH_INPUT_H_
