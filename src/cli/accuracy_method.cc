#include "cli/accuracy_method.h"

#include <algorithm>
#include <utility>

#include "attenio/approx.h"
#include "attenio/io_poly.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

double HeadsOf(const Shape& shape) { return static_cast<double>(shape.batch * shape.kv_heads); }

const MemoryLevel* L2() { return ThisMachine().Find("L2"); }

double L2Bytes(const Result<std::vector<LineTraffic>>& levels) {
  if (!levels.ok()) Refuse("{}", levels.status().message());
  for (const LineTraffic& level : *levels) {
    if (level.level == "L2") return static_cast<double>(level.total_bytes());
  }
  Refuse("--simulate: this machine has no L2 with ways");
}

ordered_json ExactTraffic(const Plan& plan, bool simulate) {
  const Schedule& schedule = plan.schedule();
  const Shape& shape = plan.shape();
  attenio::Traffic traffic = Predict(schedule, shape, 0, RowStats::kWrittenBack);
  traffic.packing = PackingWords(schedule, shape);
  ordered_json facts{{"bytes_predicted", HeadsOf(shape) * Bytes(traffic, SolveOptions{})},
                     {"schedule", schedule.ToString()}};
  if (simulate)
    facts["bytes_simulated"] = HeadsOf(shape) * L2Bytes(SimulateCaches(schedule, shape, ThisMachine(), CacheOptions{}));
  return facts;
}

ordered_json PolyTraffic(const Shape& shape, int degree, DType out_type, bool simulate) {
  ordered_json facts;
  const MemoryLevel* l2 = L2();
  if (l2 == nullptr) return facts;
  const Result<PolySchedule> schedule = SolvePoly(shape, degree, static_cast<double>(l2->bytes) / 4);
  if (!schedule.ok()) return facts;
  const SolveOptions words{.packed_bytes = shape.element_bytes, .out_bytes = ElementBytes(out_type)};
  facts = {{"regime", Name(schedule->regime)},
           {"bytes_predicted", HeadsOf(shape) * Bytes(Predict(*schedule, shape), words)},
           {"schedule", schedule->ToString()}};
  // The executor's loops are those of R.
  if (simulate) {
    const PolySchedule resident{PolyRegime::kResident, degree};
    facts["bytes_simulated"] =
        HeadsOf(shape) * L2Bytes(SimulateCaches(resident, shape, ThisMachine(), PolyCacheOptions{}));
  }
  return facts;
}

class ExactMethod : public Method {
 public:
  ExactMethod(const MethodOptions& o, const AttentionDesc& desc) : prepared_(desc, OptionsOf(o)) {}
  std::string Obstacle() const override { return prepared_.status().message(); }
  void Run(Problem* problem, const Parallel& parallel) override {
    Require(prepared_.Run(problem->operands(), parallel));
  }
  ordered_json Traffic(bool simulate) const override { return ExactTraffic(prepared_.plan(), simulate); }

 private:
  static Options OptionsOf(const MethodOptions& o) {
    Options options;
    options.kernel = o.kernel;
    options.workers = o.workers;
    return options;
  }
  mutable PreparedPlan prepared_;
};

class Approximate : public Method {
 public:
  Approximate(const MethodOptions& o, const AttentionDesc& desc)
      : call_(desc, OptionsOf(o)), out_type_(desc.out_dtype.value_or(desc.dtype)), exact_(o, desc) {}
  std::string Obstacle() const override { return call_.status().message(); }
  void Run(Problem* problem, const Parallel& parallel) override { Require(call_.Run(problem->operands(), parallel)); }
  const ApproxCall* call() const override { return &call_; }
  int degree() const override { return call_.report().degree; }
  ordered_json Traffic(bool simulate) const override {
    const std::string path = call_.path();
    if (path == "exact") return exact_.Traffic(simulate);
    return path == "groups" ? ordered_json::object() : PolyTraffic(call_.plan().shape(), degree(), out_type_, simulate);
  }

 private:
  static ApproxOptions OptionsOf(const MethodOptions& o) {
    ApproxOptions options;
    options.method = o.name.starts_with("groups") ? ApproxMethod::kGroups : ApproxMethod::kState;
    options.mode = o.name.ends_with("-always") ? ApproxMode::kPolynomial : ApproxMode::kFastest;
    options.max_error = o.max_error;
    if (o.degree >= 0) options.max_degree = o.degree;
    options.kernel = o.kernel;
    options.workers = o.workers;
    return options;
  }
  ApproxCall call_;
  DType out_type_;
  ExactMethod exact_;
};

class Compared : public Method {
 public:
  Compared(const MethodOptions& o, Comparator comparator, const AttentionDesc& desc) {
    options_.method = comparator;
    options_.features = comparator == Comparator::kTaylor ? degree_ = o.degree >= 0 ? o.degree : 2 : o.features;
    // Run on nothing: only the checks.
    if (desc.dtype != DType::kF32) obstacle_ = "comparators take f32 only";
    if (desc.causal != (comparator == Comparator::kWindow))
      obstacle_ = "the sliding window is causal, the others are not";
  }
  std::string Obstacle() const override { return obstacle_; }
  void Run(Problem* problem, const Parallel&) override {
    Require(RunComparator(problem->desc, problem->operands(), options_));
  }
  int degree() const override { return degree_; }

 private:
  int degree_ = -1;
  ComparatorOptions options_;
  std::string obstacle_;
};

}  // namespace

ordered_json Method::Traffic(bool) const { return ordered_json::object(); }

const std::vector<std::string>& MethodNames() {
  static const std::vector<std::string> names{"exact",  "poly",      "poly-always", "groups", "groups-always",
                                              "taylor", "performer", "nystrom",     "window"};
  return names;
}

bool TakesMaxError(const std::string& m) { return m.starts_with("poly") || m.starts_with("groups"); }
bool TakesDegree(const std::string& m) { return m == "taylor" || m.starts_with("poly"); }
bool TakesFeatures(const std::string& m) { return m == "performer" || m == "nystrom" || m == "window"; }

std::unique_ptr<Method> MakeMethod(const MethodOptions& o, const AttentionDesc& desc) {
  if (o.name == "exact") return std::make_unique<ExactMethod>(o, desc);
  if (TakesMaxError(o.name)) return std::make_unique<Approximate>(o, desc);
  const Comparator comparator = o.name == "taylor"      ? Comparator::kTaylor
                                : o.name == "performer" ? Comparator::kPerformer
                                : o.name == "nystrom"   ? Comparator::kNystrom
                                                        : Comparator::kWindow;
  return std::make_unique<Compared>(o, comparator, desc);
}

}  // namespace attenio::cli
