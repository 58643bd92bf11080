// The options of `attenio bench`, and what one implementation of a case has shown so far.
#ifndef ATTENIO_SRC_CLI_BENCH_OPTIONS_H_
#define ATTENIO_SRC_CLI_BENCH_OPTIONS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attenio/hw.h"
#include "cli/bench_input.h"
#include "cli/contender.h"
#include "cli/peaks.h"

namespace attenio::cli {

struct BenchOptions {
  std::string shapes, cases = ".*", impl = "exact,naive", machine = "this";
  std::vector<int> replay_threads;
  double seconds = 0.5;
  int64_t replay_heads = 2;
  bool json = false, serve = false, explain = false, list = false, ablation = false, project = false;
  BenchInput input;
  RunOptions run;
};

// One implementation of the case at hand.
struct Entry {
  std::string name;
  std::string variant;  // of --ablation
  std::unique_ptr<Contender> contender;
  std::string status = "ok";
  Verdict verdict;
  std::vector<double> signature;
  Times times;
  std::vector<double> fractions;  // of the peak, one per round
  std::vector<double> ratios;     // time over that of the first entry in the same round
  std::vector<Peaks> peaks;       // one per round, and one after the last
  std::optional<CpuProjection> predicted;

  bool measurable() const { return status == "ok"; }
};

// Of one peak over all rounds.
double MedianPeak(const Entry& entry, double Peaks::*peak);
double Median(std::vector<double> values);  // 0 of none

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_BENCH_OPTIONS_H_
