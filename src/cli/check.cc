// attenio check: random problems against the f64 oracle.
#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/random_problem.h"
#include "cli/verify.h"

namespace attenio::cli {
namespace {

struct CheckOptions {
  uint64_t seed = 1;
  int64_t cases = 2000;
  bool json = false;
  RunOptions run;
};

// The oracle works through about 3e8 elements of K and V a second: 10 ms a case.
constexpr double kOracleBudget = 3e6;

struct Outcome {
  enum Kind { kPassed, kFailed, kSkipped } kind = kPassed;
  std::string kernel, detail;
  DType out_dtype = DType::kF32;
  bool crossing = false;  // at least 3 key blocks in one query tile and at least 2 query tiles
  Verdict verdict;
};

const char* Name(Outcome::Kind kind) {
  return kind == Outcome::kPassed ? "passed" : kind == Outcome::kFailed ? "failed" : "skipped";
}

Outcome Failed(Outcome outcome, std::string detail) {
  outcome.kind = Outcome::kFailed;
  outcome.detail = std::move(detail);
  return outcome;
}

bool Crosses(const Plan& plan) {
  const Schedule& schedule = plan.schedule();
  const int64_t tiles = NumTiles(schedule, plan.shape());
  int64_t most = 0;
  for (int64_t t = 0; t < tiles; ++t) {
    int64_t blocks = 0;
    ForEachStep(schedule, plan.shape(), TileQueries(schedule, plan.shape(), t), [&](const Step&) { ++blocks; }, 1);
    most = std::max(most, blocks);
  }
  return tiles >= 2 && most >= 3;
}

// Every task by hand, the last one first.
Status RunBackwards(const Plan& plan, const Operands& operands, std::span<std::byte> workspace) {
  for (int64_t phase = 0; phase < plan.phases(); ++phase) {
    for (int64_t task = plan.tasks(phase) - 1; task >= 0; --task) {
      const Status status = plan.RunTask(operands, workspace, phase, task, 0);
      if (!status.ok()) return status;
    }
  }
  return {};
}

class Checker {
 public:
  explicit Checker(const CheckOptions& options)
      : options_(options), executor_(options.run.threads), pool_(executor_.workers()) {}

  Outcome RunCase(uint64_t seed) {
    RandomProblem problem(seed);
    Outcome outcome;
    outcome.out_dtype = problem.desc().out_dtype.value_or(problem.desc().dtype);
    RunOptions run = options_.run;
    if (run.schedule.empty()) run.schedule = problem.schedule();
    const Result<Plan> plan = Plan::Create(problem.desc(), run.ForPlan(executor_.workers()));
    if (!plan.ok()) {
      const bool refused = plan.status().code() == Code::kUnsupported;
      outcome = Failed(outcome, fmt::format("{}: {}", problem.Text(), plan.status().message()));
      if (refused) outcome.kind = Outcome::kSkipped;
      return outcome;
    }
    outcome.kernel = plan->kernel();
    outcome.crossing = Crosses(*plan);
    Status status = Execute(*plan, &problem, static_cast<int>(seed % 4), seed);
    if (!status.ok()) return Failed(outcome, fmt::format("{}: {}", problem.Text(), status.message()));
    Verify(&problem, seed, &outcome);
    if (outcome.kind == Outcome::kPassed) {
      for (size_t i = 0; i < kFeatures; ++i) coverage_[i] += problem.has(static_cast<Feature>(i));
    }
    // Another executor gives the same bits.
    if (outcome.kind == Outcome::kPassed && seed % 5 == 0) {
      const std::vector<std::byte> out = problem.out();
      const std::vector<float> lse = problem.lse();
      status = Execute(*plan, &problem, static_cast<int>(seed + 1) % 4, ~seed);
      const bool same = status.ok() && out == problem.out() &&
                        (lse.empty() || std::memcmp(lse.data(), problem.lse().data(), lse.size() * sizeof(float)) == 0);
      if (!same) return Failed(outcome, fmt::format("{}: another executor gave other bits", problem.Text()));
    }
    return outcome;
  }

  const std::array<int64_t, kFeatures>& coverage() const { return coverage_; }

 private:
  // On one of four executors, in a workspace of any alignment that is full of NaN.
  Status Execute(const Plan& plan, RandomProblem* problem, int executor, uint64_t seed) {
    const size_t shift = seed % 64;
    std::vector<std::byte> memory(plan.workspace_bytes() + shift, std::byte{0xff});
    const std::span<std::byte> workspace = std::span(memory).subspan(shift);
    problem->ClearOutputs();
    switch (executor) {
      case 0: return plan.Run(problem->operands(), workspace);
      case 1: return plan.Run(problem->operands(), workspace, executor_.parallel());
      case 2: return plan.Run(problem->operands(), workspace, pool_.parallel());
      default: return RunBackwards(plan, problem->operands(), workspace);
    }
  }

  void Verify(RandomProblem* problem, uint64_t seed, Outcome* outcome) {
    std::mt19937_64 random(seed);
    const DType probability = ProbabilityType(outcome->kernel);
    for (const RowIndex& row : ChooseRows(problem->desc(), kOracleBudget, &random)) {
      VerifyRow(problem->desc(), problem->operands(), row, probability, &outcome->verdict);
    }
    if (!outcome->verdict.ok()) {
      *outcome = Failed(*outcome, fmt::format("{}: {}", problem->Text(), outcome->verdict.where));
    } else if (problem->GapsWritten()) {
      *outcome = Failed(*outcome, fmt::format("{}: memory between the rows of out was written", problem->Text()));
    }
  }

  const CheckOptions& options_;
  DefaultExecutor executor_;
  ThreadPool pool_;
  std::array<int64_t, kFeatures> coverage_{};
};

struct Totals {
  int64_t count[3] = {0, 0, 0};  // by Outcome::Kind
  int64_t crossing = 0, rows = 0;
  double worst[3] = {0, 0, 0};  // by output type: rounding alone takes a 16-bit result to 1
  uint64_t worst_seed[3] = {0, 0, 0};

  void Add(const Outcome& o, uint64_t seed) {
    ++count[o.kind];
    if (o.kind == Outcome::kPassed) crossing += o.crossing;
    rows += o.verdict.rows;
    const size_t type = static_cast<size_t>(o.out_dtype);
    if (o.verdict.worst > worst[type]) {
      worst[type] = o.verdict.worst;
      worst_seed[type] = seed;
    }
  }
};

std::string ReplayLine(const RunOptions& run, uint64_t seed) {
  std::string line = fmt::format("attenio check --seed {} --cases 1", seed);
  if (!run.kernel.empty()) line += fmt::format(" --kernel {}", run.kernel);
  if (!run.schedule.empty()) line += fmt::format(" --schedule '{}'", run.schedule);
  if (run.threads > 0) line += fmt::format(" --threads {}", run.threads);
  return line;
}

void Print(const CheckOptions& o, const Outcome& outcome, uint64_t seed) {
  if (o.json) {
    nlohmann::ordered_json line{{"case", fmt::format("seed-{}", seed)},     {"kernel", outcome.kernel},
                                {"status", Name(outcome.kind)},            {"worst_error", outcome.verdict.error},
                                {"tolerance", outcome.verdict.bound},      {"error_over_bound", outcome.verdict.worst},
                                {"rows", outcome.verdict.rows},            {"detail", outcome.detail}};
    fmt::print("{}\n", line.dump());
  } else if (outcome.kind == Outcome::kFailed) {
    fmt::print("failed  seed {}: {}\n  replay: {}\n", seed, outcome.detail, ReplayLine(o.run, seed));
  }
}

// What ran, and whether enough of it ran to mean something.
bool PrintSummary(const CheckOptions& o, const Totals& t, const std::array<int64_t, kFeatures>& coverage) {
  const int64_t passed = t.count[Outcome::kPassed];
  bool covered = true;
  std::string text = fmt::format("covered: {} across >= 3 key blocks and >= 2 query tiles", t.crossing);
  for (size_t i = 0; i < kFeatures; ++i) text += fmt::format(", {} {}", coverage[i], Name(static_cast<Feature>(i)));
  if (!o.json) {
    fmt::print("largest error / bound over {} rows:", t.rows);
    for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      const size_t i = static_cast<size_t>(type);
      fmt::print(" {} {:.3f} (seed {})", attenio::Name(type), t.worst[i], t.worst_seed[i]);
    }
    fmt::print("\n{}\n", text);
  }
  // A run of this size reaches everything, unless a named kernel refuses types or a given schedule has larger blocks.
  if (o.cases >= 500 && o.run.kernel.empty() && o.run.schedule.empty()) {
    covered = t.crossing * 4 >= passed && *std::min_element(coverage.begin(), coverage.end()) > 0;
    if (!covered) fmt::print(stderr, "the coverage is too small: {}\n", text);
  }
  fmt::print(stderr, "{} passed, {} failed, {} skipped\n", passed, t.count[Outcome::kFailed], t.count[Outcome::kSkipped]);
  return covered;
}

int Check(const CheckOptions& o) {
  RequireKnownKernel(o.run.kernel);
  Checker checker(o);
  Progress progress("case");
  Totals totals;
  for (int64_t i = 0; i < o.cases; ++i) {
    const uint64_t seed = o.seed + static_cast<uint64_t>(i);
    progress.Update(i, o.cases);
    const Outcome outcome = checker.RunCase(seed);
    totals.Add(outcome, seed);
    Print(o, outcome, seed);
  }
  const bool covered = PrintSummary(o, totals, checker.coverage());
  const bool ok = covered && totals.count[Outcome::kFailed] == 0 && totals.count[Outcome::kPassed] > 0;
  return ok ? kExitOk : kExitFailed;
}

}  // namespace

void AddCheck(CLI::App& app, Action* action) {
  CLI::App* sub = app.add_subcommand("check", "Random problems against a reference in f64");
  const auto o = std::make_shared<CheckOptions>();
  sub->add_option("--seed", o->seed, "Seed of the first case; the next ones count up")->capture_default_str();
  sub->add_option("--cases", o->cases, "Number of cases")
      ->check(CLI::Range(int64_t{1}, INT64_MAX))
      ->capture_default_str();
  sub->add_flag("--json", o->json, "One JSON object per case");
  o->run.AddTo(*sub);
  sub->callback([=] { *action = [=] { return Check(*o); }; });
}

}  // namespace attenio::cli
