// What the subcommands share: how they are added, the options that choose kernel, schedule and threads, and output.
#ifndef ATTENIO_SRC_CLI_COMMAND_H_
#define ATTENIO_SRC_CLI_COMMAND_H_

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attenio/attention.h"
#include "cli/error.h"

namespace attenio::cli {

// Exit codes of every subcommand.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // a check failed
inline constexpr int kExitUsage = 2;   // bad usage or input

// What a parsed subcommand does; returns the exit code, throws InputError for bad input.
using Action = std::function<int()>;

// Each adds its subcommand to `app`; parsing it sets *action.
void AddInfo(CLI::App& app, Action* action);
void AddAttend(CLI::App& app, Action* action);
void AddConformance(CLI::App& app, Action* action);
void AddCheck(CLI::App& app, Action* action);
void AddBench(CLI::App& app, Action* action);
void AddProject(CLI::App& app, Action* action);
void AddIo(CLI::App& app, Action* action);
void AddCalibrate(CLI::App& app, Action* action);
void AddAccuracy(CLI::App& app, Action* action);
void AddReport(CLI::App& app, Action* action);

// --kernel, --schedule and --threads.
struct RunOptions {
  std::string kernel;
  std::string schedule;
  int threads = 0;         // 0: as many as OpenMP would use
  OverlapOptions overlap;  // bench --ablation

  void AddTo(CLI::App& app);
  // For Plan::Create with `workers` workers. Throws InputError for a schedule that does not parse.
  Options ForPlan(int workers) const;
};

// A number from `least` to `most`, neither infinite nor NaN, which CLI::Range lets pass.
CLI::Validator Real(double least, double most);

// Throws InputError when `kernel` is not empty and no kernel of this build has that name.
void RequireKnownKernel(const std::string& kernel);

// Throws InputError when `status` is an error.
void Require(const Status& status);

// "f32", "bf16" or "f16"; throws InputError naming `option` otherwise.
DType ParseDType(const std::string& text, const char* option);

// --window "LEFT,RIGHT", -1 = unbounded. Throws InputError.
void ParseWindow(const std::string& text, AttentionDesc* desc);

// Plan and workspace for one problem, made once and run many times.
class PreparedPlan {
 public:
  PreparedPlan(const AttentionDesc& desc, const Options& options);
  const Status& status() const { return status_; }
  const Plan& plan() const { return *plan_; }
  size_t workspace_bytes() const { return workspace_.size(); }
  Status Run(const Operands& operands, const Parallel& parallel) { return plan_->Run(operands, workspace_, parallel); }

 private:
  Status status_;
  std::optional<Plan> plan_;
  std::vector<std::byte> workspace_;
};

// A line of progress on stderr, when that is a terminal; erased at the end.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  void Update(int64_t done, int64_t total, const std::string& detail = "");

 private:
  std::string what_;
  bool terminal_;
  double last_ = 0;
};

double Seconds();  // steady clock

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_COMMAND_H_
