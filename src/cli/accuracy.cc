// attenio accuracy: error of exact and approximate attention against the f64 oracle, with time and bytes beside it.
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "cli/accuracy_data.h"
#include "cli/accuracy_method.h"
#include "cli/accuracy_scaling.h"
#include "cli/accuracy_study.h"
#include "cli/command.h"

namespace attenio::cli {
namespace {

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
    return RunStudy(o, executor, subject, &table);
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
