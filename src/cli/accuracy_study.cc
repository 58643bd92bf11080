#include "cli/accuracy_study.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/accuracy_error.h"
#include "cli/accuracy_method.h"
#include "cli/contender.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

// Every method of a problem, each timed in turn with exact attention.
class Study {
 public:
  Study(const AccuracyOptions& options, const DefaultExecutor& executor, AccuracyTable* table)
      : o_(options), executor_(executor), table_(*table) {}

  // False when a certificate was broken.
  bool Run(Subject* subject) {
    subject_ = subject;
    reference_ = ComputeReference(&subject->problem, executor_.parallel());
    exact_ = MakeMethod(Options("exact"), subject->problem.desc);
    bool ok = true;
    for (const std::string& name : o_.methods) {
      for (const MethodOptions& m : Sweep(name)) ok = RunMethod(m) && ok;
    }
    return ok;
  }

 private:
  MethodOptions Options(const std::string& name) const {
    MethodOptions m;
    m.name = name;
    m.kernel = o_.kernel;
    m.workers = executor_.workers();
    return m;
  }

  std::vector<MethodOptions> Sweep(const std::string& name) const {
    std::vector<MethodOptions> sweep{Options(name)};
    const auto expand = [&](const auto& values, auto set) {
      if (values.empty()) return;
      std::vector<MethodOptions> wider;
      for (const MethodOptions& m : sweep) {
        for (const auto& value : values) {
          wider.push_back(m);
          set(&wider.back(), value);
        }
      }
      sweep = std::move(wider);
    };
    if (TakesMaxError(name)) expand(o_.max_errors, [](MethodOptions* m, double e) { m->max_error = e; });
    if (TakesDegree(name)) expand(o_.degrees, [](MethodOptions* m, int g) { m->degree = g; });
    if (TakesFeatures(name)) expand(o_.features, [](MethodOptions* m, int64_t f) { m->features = f; });
    return sweep;
  }

  ordered_json Head(const MethodOptions& m) const {
    const AttentionDesc& d = subject_->problem.desc;
    ordered_json line{{"method", m.name}, {"distribution", subject_->distribution}, {"n", d.kv_len}, {"d", d.qk_dim}};
    line["bound"] = subject_->bound ? ordered_json(*subject_->bound) : ordered_json();
    line["degree"] = nullptr;
    line["dtype"] = Name(d.dtype);
    line["threads"] = executor_.workers();
    if (TakesMaxError(m.name)) line["max_error"] = m.max_error;
    if (TakesFeatures(m.name)) line["features"] = m.features;
    return line;
  }

  // Medians of the method and of exact attention, run in turn.
  void Time(Method* method, ordered_json* line) {
    Times mine, exact;
    for (int i = 0; i < o_.repeats; ++i) {
      const double start = Seconds();
      exact_->Run(&subject_->problem, executor_.parallel());
      const double between = Seconds();
      method->Run(&subject_->problem, executor_.parallel());
      exact.Add(between - start);
      mine.Add(Seconds() - between);
    }
    (*line)["time_ms"] = mine.median() * 1e3;
    (*line)["exact_ms"] = exact.median() * 1e3;
    (*line)["speedup_over_exact"] = exact.median() / mine.median();
  }

  // What the report certifies, and whether the sampled rows keep to it.
  bool Certificate(const ApproxCall& call, const Errors& errors, ordered_json* line) const {
    const ApproxReport& r = call.report();
    line->update(call.Json());
    std::vector<double> ratios;
    for (size_t i = 0; i < reference_.rows.size(); ++i) {
      if (!call.IsExact(reference_.rows[i]))
        ratios.push_back(call.RowBound(reference_.rows[i]) / std::max(errors.beyond_rounding[i], 1e-12));
    }
    Times sorted;
    sorted.all = ratios;
    (*line)["certified_over_error"] = ratios.empty() ? ordered_json() : ordered_json(sorted.median());
    if (r.exact_rows == r.rows) (*line)["degree"] = (*line)["certified"] = nullptr;
    return ratios.empty() || *std::min_element(ratios.begin(), ratios.end()) >= 1;
  }

  bool RunMethod(const MethodOptions& m) {
    ordered_json line = Head(m);
    const std::unique_ptr<Method> method = MakeMethod(m, subject_->problem.desc);
    line["status"] = method->Obstacle().empty() ? "ok" : method->Obstacle();
    bool ok = true;
    if (method->Obstacle().empty()) {
      Time(method.get(), &line);
      const Errors e = Compare(subject_->problem, reference_);
      line.update({{"error_max", e.max},
                   {"error_rmse", e.rmse},
                   {"error_relative", e.relative},
                   {"error_p50", e.p50},
                   {"error_p90", e.p90},
                   {"error_p99", e.p99}});
      line["not_finite"] = e.not_finite;
      line["rows_sampled"] = reference_.rows.size();
      if (method->degree() >= 0) line["degree"] = method->degree();
      if (method->call() != nullptr) ok = Certificate(*method->call(), e, &line);
      if (!ok) line["status"] = "certificate broken";
      line["kl"] = Divergence(m, *method);
      line.update(method->Traffic(o_.simulate));
    }
    table_.Add(line);
    return ok;
  }

  // The same degrees as in the run, whatever the unit values would make cheapest.
  ordered_json Divergence(MethodOptions m, const Method& run) const {
    if (run.call() != nullptr && run.call()->report().exact_rows == run.call()->report().rows) m.name = "exact";
    if (m.name == "poly" || m.name == "groups") m.name += "-always";
    if (run.degree() >= 0) m.degree = run.degree();
    const std::optional<double> kl = WeightDivergence(subject_->problem, [&](Problem* p) {
      const std::unique_ptr<Method> method = MakeMethod(m, p->desc);
      if (!method->Obstacle().empty()) return false;
      method->Run(p, executor_.parallel());
      return true;
    });
    return kl ? ordered_json(*kl) : ordered_json();
  }

  const AccuracyOptions& o_;
  const DefaultExecutor& executor_;
  AccuracyTable& table_;
  Subject* subject_ = nullptr;
  Reference reference_;
  std::unique_ptr<Method> exact_;
};

}  // namespace

bool RunStudy(const AccuracyOptions& options, const DefaultExecutor& executor, Subject* subject, AccuracyTable* table) {
  return Study(options, executor, table).Run(subject);
}

}  // namespace attenio::cli
