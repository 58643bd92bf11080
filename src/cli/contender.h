// What `attenio bench` compares: implementations of one case, prepared once and run many times.
#ifndef ATTENIO_SRC_CLI_CONTENDER_H_
#define ATTENIO_SRC_CLI_CONTENDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_case.h"
#include "cli/command.h"
#include "cli/operands.h"
#include "cli/verify.h"

namespace attenio::cli {

// One run may take this long; what takes longer is not measured.
inline constexpr double kLongestRun = 20;

class Contender {
 public:
  virtual ~Contender() = default;
  virtual void Run() = 0;
  // Why the case cannot be measured (unsupported, too slow), known before Run; empty: it can.
  virtual std::string Obstacle() { return ""; }
  virtual std::string kernel() const { return ""; }
  // In which it multiplies the weights with V.
  virtual DType probability_type() const { return DType::kF32; }
  virtual std::string schedule() const { return ""; }
  virtual std::string explain() const { return ""; }
  virtual const Plan* plan() const { return nullptr; }
  virtual int64_t workspace_bytes() const { return 0; }
  // Bytes across the boundary of the schedule's outermost level, as modelled, and the least that any schedule which computes
  // each score once moves; nothing where no model speaks.
  virtual std::optional<double> bytes_predicted() const { return std::nullopt; }
  virtual std::optional<double> bytes_bound() const { return std::nullopt; }
};

// By one of the names below; all write to problem->out. Throws InputError for another name. `problem` and `executor` must outlive it.
std::unique_ptr<Contender> MakeContender(const std::string& name, Problem* problem, const RunOptions& options,
                                         DefaultExecutor* executor);
// "exact", "naive" and, in builds with oneDNN, "onednn".
const std::vector<std::string>& ContenderNames();

// Why this build has no implementation "onednn-graph".
std::string OneDnnGraphObstacle();

// Compares sampled rows of problem->out with the oracle.
Verdict VerifySample(Problem* problem, DType probability_type);

// Times of one contender; seconds.
struct Times {
  std::vector<double> all;
  void Add(double seconds) { all.push_back(seconds); }
  double median() const;
  double min() const;
  double max() const;
};

// Runs until `seconds` are used up or an interrupt comes, at least once (three times when a run is short).
Times Measure(Contender* contender, double seconds);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_CONTENDER_H_
