// attenio accuracy: error of exact and approximate attention against the f64 oracle, with time and bytes beside it.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/accuracy_data.h"
#include "cli/accuracy_error.h"
#include "cli/accuracy_method.h"
#include "cli/accuracy_scaling.h"
#include "cli/accuracy_table.h"
#include "cli/command.h"
#include "cli/contender.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

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

void RequireOneOf(const std::vector<std::string>& given, const std::vector<std::string>& known, const char* option) {
  if (given.empty()) Refuse("{} names nothing", option);
  for (const std::string& name : given) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      Refuse("{} {}: expected some of {}", option, name, fmt::join(known, ","));
  }
}

void CheckOptions(const AccuracyOptions& o) {
  RequireOneOf(o.distributions, DistributionNames(), "--dist");
  RequireOneOf(o.methods, MethodNames(), "--methods");
  RequireKnownKernel(o.kernel);
  for (double e : o.max_errors) {
    if (!(e > 0 && e <= 1)) Refuse("--max-error {}: expected more than 0 and at most 1", e);
  }
  for (double b : o.bounds) {
    if (!(b > 0 && b <= 1000)) Refuse("--bound {}: expected more than 0 and at most 1000", b);
  }
  if (!(o.between >= 0 && o.between <= 1000)) Refuse("--between {}: expected 0 to 1000", o.between);
  if (o.heads % std::max<int64_t>(1, o.kv_heads) != 0)
    Refuse("--heads {} is not a multiple of --kv-heads {}", o.heads, o.kv_heads);
}

// Calls visit for every problem, one in memory at a time.
bool ForEachSubject(const AccuracyOptions& o, const std::function<bool(Subject*)>& visit) {
  if (!o.input.empty()) {
    Subject subject{"input", {}, ReadInput({o.input, o.heads, o.kv_heads, o.dtype, o.causal})};
    return visit(&subject);
  }
  bool ok = true;
  DataOptions data;
  data.dtype = o.dtype.empty() ? DType::kF32 : ParseDType(o.dtype, "--dtype");
  data.heads = std::max<int64_t>(1, o.heads);
  data.kv_heads = o.kv_heads > 0 ? o.kv_heads : data.heads;
  data.between = o.between;
  data.causal = o.causal;
  data.seed = o.seed;
  for (const std::string& distribution : o.distributions) {
    const bool bounded = TakesBound(distribution);
    for (const int64_t d : o.d) {
      for (const int64_t n : o.n) {
        for (size_t b = 0; b < (bounded ? o.bounds.size() : 1); ++b) {
          data.distribution = distribution;
          data.n = n;
          data.d = d;
          data.bound = o.bounds[b];
          Subject subject{distribution, bounded ? std::optional(data.bound) : std::nullopt, Generate(data)};
          ok = visit(&subject) && ok;
        }
      }
    }
  }
  return ok;
}

int RunAccuracy(const AccuracyOptions& o) {
  CheckOptions(o);
  const DefaultExecutor executor(o.threads);
  if (o.scaling) {
    return RunScaling({.d = o.d[0],
                       .longest = o.longest,
                       .bound = o.bounds[0],
                       .max_error = o.max_errors[0],
                       .seed = o.seed,
                       .repeats = o.repeats,
                       .json = o.json},
                      executor);
  }
  AccuracyTable table(o.out, o.json);
  Progress progress("problem");
  int64_t done = 0;
  const bool ok = ForEachSubject(o, [&](Subject* subject) {
    progress.Update(++done, 0, subject->distribution);
    return Study(o, executor, &table).Run(subject);
  });
  return ok ? kExitOk : kExitFailed;
}

}  // namespace

void AddAccuracy(CLI::App& app, Action* action) {
  CLI::App* sub = app.add_subcommand(
      "accuracy", "Error of exact and approximate attention against f64, with time and bytes beside it");
  const auto o = std::make_shared<AccuracyOptions>();
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 24);
  sub->add_option("--input", o->input,
                  "Your own tensors: one .safetensors with q, k and v, or Q,K,V as FILE.npy or FILE.safetensors:TENSOR")
      ->delimiter(',');
  sub->add_option("--dist", o->distributions, "Generated problems: normal, outlier, llm, bounded, clustered")
      ->delimiter(',');
  sub->add_option("--n", o->n, "Queries and keys")->delimiter(',')->check(positive)->capture_default_str();
  sub->add_option("--d", o->d, "Head dims")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->capture_default_str();
  sub->add_option("--bound", o->bounds, "bounded: largest |score|; clustered: spread of the scores of a cluster")
      ->delimiter(',')
      ->capture_default_str();
  sub->add_option("--between", o->between, "clustered: standard deviation of the clusters' scores")
      ->capture_default_str();
  sub->add_option("--methods", o->methods, fmt::format("Some of {}", fmt::join(MethodNames(), ", ")))
      ->delimiter(',')
      ->capture_default_str();
  sub->add_option("--max-error", o->max_errors, "poly and groups: largest error, relative to the value range")
      ->delimiter(',')
      ->capture_default_str();
  sub->add_option("--degree", o->degrees, "taylor: degree (default 2); poly: largest degree (default 8)")
      ->delimiter(',')
      ->check(CLI::Range(0, 20));
  sub->add_option("--features", o->features, "performer, nystrom: features; window: keys")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->capture_default_str();
  sub->add_option("--heads", o->heads, "Query heads (default 1; of 3-D inputs: required)")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}));
  sub->add_option("--kv-heads", o->kv_heads, "KV heads (default: --heads)")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}));
  sub->add_option("--dtype", o->dtype, "f32 (default), bf16 or f16; the output is f32");
  sub->add_flag("--causal", o->causal, "Key j for query i iff j <= i");
  sub->add_option("--seed", o->seed, "Of the generated numbers")->capture_default_str();
  sub->add_option("--repeats", o->repeats, "Timed runs, in turn with exact attention; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  sub->add_flag("--simulate", o->simulate,
                "Also simulate the caches (slow beyond some thousand keys for exact attention)");
  sub->add_flag(
      "--scaling", o->scaling,
      "Instead: time over n on spheres, its slopes, and where poly meets exact (--d, --bound, --max-error: the first)");
  sub->add_option("--longest", o->longest, "Of --scaling: the largest n of the polynomial path")
      ->check(CLI::Range(int64_t{256}, int64_t{1} << 24))
      ->capture_default_str();
  sub->add_option("--kernel", o->kernel, "Kernel of exact attention and exact rows");
  sub->add_option("--threads", o->threads, "Threads (default: as many as OpenMP would use)")
      ->check(CLI::Range(1, 1024));
  sub->add_option("--out", o->out, "Also write every line into this .csv as soon as it is measured");
  sub->add_flag("--json", o->json, "JSON lines");
  sub->callback([=] { *action = [=] { return RunAccuracy(*o); }; });
}

}  // namespace attenio::cli
