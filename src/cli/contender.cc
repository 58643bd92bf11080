#include "cli/contender.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "api/validate.h"
#include "cli/interrupt.h"
#include "cli/naive.h"
#include "unfused/onednn.h"

namespace attenio::cli {
namespace {

class Exact : public Contender {
 public:
  Exact(Problem* problem, const RunOptions& options, DefaultExecutor* executor)
      : problem_(*problem), executor_(*executor), prepared_(problem->desc, options.ForPlan(executor->workers())) {}

  std::string Obstacle() override { return prepared_.status().ok() ? "" : prepared_.status().message(); }
  void Run() override { Require(prepared_.Run(problem_.operands(), executor_.parallel())); }
  std::string kernel() const override { return prepared_.status().ok() ? prepared_.plan().kernel() : ""; }
  DType probability_type() const override { return prepared_.plan().probability_type(); }
  std::string schedule() const override { return prepared_.plan().schedule().ToString(); }
  std::string explain() const override { return prepared_.plan().Explain(); }
  const Plan* plan() const override { return prepared_.status().ok() ? &prepared_.plan() : nullptr; }
  int64_t workspace_bytes() const override { return static_cast<int64_t>(prepared_.workspace_bytes()); }

  std::optional<double> bytes_predicted() const override {
    const Schedule& schedule = prepared_.plan().schedule();
    const Shape& shape = prepared_.plan().shape();
    Traffic traffic = Predict(schedule, shape, 0, RowStats::kWrittenBack);
    traffic.packing = PackingWords(schedule, shape);
    return heads() * Bytes(traffic, SolveOptions{});
  }

  std::optional<double> bytes_bound() const override {
    const MemoryLevel* level = ThisMachine().Find(prepared_.plan().schedule().levels[0].level);
    if (level == nullptr || level->bytes == 0) return std::nullopt;
    constexpr double kWord = 4;  // kernels work on f32
    return heads() * kWord *
           LowerBound(prepared_.plan().shape(), static_cast<double>(level->bytes) / kWord, BoundKind::kScoreOnce);
  }

 private:
  double heads() const {
    return static_cast<double>(prepared_.plan().shape().batch * prepared_.plan().shape().kv_heads);
  }

  Problem& problem_;
  DefaultExecutor& executor_;
  PreparedPlan prepared_;
};

class Naive : public Contender {
 public:
  Naive(Problem* problem, DefaultExecutor* executor) : problem_(*problem), executor_(*executor) {}

  // The last rows stand for all: under a causal mask they cost twice the mean.
  std::string Obstacle() override {
    const AttentionDesc& d = problem_.desc;
    if (d.mask.dtype || d.sinks || d.alibi) return "naive takes no mask, sink or ALiBi";
    const int64_t sample = std::min<int64_t>(rows(), 16 * executor_.workers());
    const double start = Seconds();
    NaiveAttention(problem_.desc, problem_.operands(), {rows() - sample, rows()}, executor_.parallel());
    const double estimate = (Seconds() - start) * static_cast<double>(rows()) / static_cast<double>(sample);
    return estimate > kLongestRun ? fmt::format("one run would take about {:.0f} s", estimate) : "";
  }
  void Run() override { NaiveAttention(problem_.desc, problem_.operands(), {0, rows()}, executor_.parallel()); }

 private:
  int64_t rows() const { return problem_.desc.batch * problem_.desc.q_heads * problem_.desc.q_len; }

  Problem& problem_;
  DefaultExecutor& executor_;
};

// Three oneDNN primitives with the scores between them in memory.
class OneDnn : public Contender {
 public:
  OneDnn(Problem* problem, DefaultExecutor* executor) : problem_(*problem), executor_(*executor) {
    const Result<AttentionDesc> desc = Resolve(problem_.desc);
    if (!desc.ok()) {
      status_ = desc.status();
      return;
    }
    Result<unfused::OneDnnPlan> plan = unfused::OneDnnPlan::Create(*desc, {.workers = executor_.workers()});
    status_ = plan.status();
    if (!plan.ok()) return;
    workspace_.resize(plan->workspace_bytes());
    plan_ = std::move(plan).value();
  }

  std::string Obstacle() override { return status_.message(); }
  void Run() override { Require(plan_->Run(problem_.operands(), workspace_, executor_.parallel())); }
  std::string kernel() const override { return plan_ ? plan_->kernel() : ""; }
  DType probability_type() const override { return plan_->probability_type(); }
  int64_t workspace_bytes() const override { return static_cast<int64_t>(workspace_.size()); }

 private:
  Problem& problem_;
  DefaultExecutor& executor_;
  Status status_;
  std::optional<unfused::OneDnnPlan> plan_;
  std::vector<std::byte> workspace_;
};

}  // namespace

const std::vector<std::string>& ContenderNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{"exact", "naive"};
    if (!unfused::OneDnnVersion().empty()) all.push_back("onednn");
    return all;
  }();
  return names;
}

std::string OneDnnGraphObstacle() {
  const std::string version = unfused::OneDnnVersion();
  if (version.empty()) return "this build has no oneDNN";
  return fmt::format(
      "not available: this build uses oneDNN {} by its primitives; the Graph SDPA pattern needs oneDNN 3", version);
}

std::unique_ptr<Contender> MakeContender(const std::string& name, Problem* problem, const RunOptions& options,
                                         DefaultExecutor* executor) {
  if (name == "exact") return std::make_unique<Exact>(problem, options, executor);
  if (name == "naive") return std::make_unique<Naive>(problem, executor);
  if (name == "onednn" && !unfused::OneDnnVersion().empty()) return std::make_unique<OneDnn>(problem, executor);
  Refuse("--impl {}: expected one of {}", name, fmt::join(ContenderNames(), ", "));
}

Verdict VerifySample(Problem* problem, DType probability_type) {
  std::mt19937_64 random(1);
  Verdict verdict;
  const Operands operands = problem->operands();
  for (const RowIndex& row : ChooseRows(problem->desc, 3e7, &random)) {  // about a tenth of a second
    VerifyRow(problem->desc, operands, row, probability_type, &verdict);
  }
  return verdict;
}

double Times::median() const {
  std::vector<double> sorted = all;
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double Times::min() const { return *std::min_element(all.begin(), all.end()); }
double Times::max() const { return *std::max_element(all.begin(), all.end()); }

Times Measure(Contender* contender, double seconds) {
  constexpr size_t kMostRuns = 2000;
  Times times;
  double sum = 0;
  while (times.all.empty() || (sum < seconds && times.all.size() < kMostRuns) ||
         (times.all.size() < 3 && times.all.back() < 0.3)) {
    if (Interrupted() != 0 && !times.all.empty()) break;
    const double start = Seconds();
    contender->Run();
    times.Add(Seconds() - start);
    sum += times.all.back();
  }
  return times;
}

}  // namespace attenio::cli
