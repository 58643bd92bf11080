// attenio bench: implementations of attention, interleaved and verified, as fractions of peaks measured in the same rounds.
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cli/bench_ablation.h"
#include "cli/bench_options.h"
#include "cli/bench_project.h"
#include "cli/bench_replay.h"
#include "cli/bench_report.h"
#include "cli/bench_serve.h"
#include "cli/interrupt.h"

namespace attenio::cli {
namespace {

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

class Bench {
 public:
  Bench(const BenchOptions& options, DefaultExecutor* executor) : options_(options), executor_(*executor) {
    if (options.project) machine_ = CalibratedMachine(options.machine);
  }

  // False when an implementation failed its check. After an interrupt only what was measured is printed.
  bool RunCase(const BenchCase& bench_case) {
    case_ = bench_case;
    problem_ = MakeProblem(bench_case, options_.input);
    flops_ = options_.input.window.empty() ? case_.Flops() : AllowedFlops(problem_);
    entries_.clear();
    for (const Variant& variant : Chosen()) {
      if (Interrupted() != 0) break;
      Prepare(variant, &entries_.emplace_back());
    }
    MeasureRounds();
    const BenchReport report{options_, case_, flops_, executor_.workers()};
    bool ok = true;
    for (const Entry& entry : entries_) {
      if (entry.measurable() && entry.times.all.empty()) continue;  // interrupted before its first run
      report.Print(entry);
      summary_.Add(case_.name, entry);
      ok = ok && entry.verdict.ok();
    }
    return ok;
  }

  const ProjectionSummary& summary() const { return summary_; }

 private:
  // Implementation names, or the variants of the exact one.
  std::vector<Variant> Chosen() const {
    if (options_.ablation) return Variants(problem_.desc, options_.run);
    std::vector<Variant> chosen;
    for (const std::string& name : Split(options_.impl)) chosen.push_back({name, options_.run});
    return chosen;
  }

  // Makes it, runs it once and verifies the result.
  void Prepare(const Variant& variant, Entry* e) {
    e->name = options_.ablation ? "exact" : variant.name;
    if (options_.ablation) e->variant = variant.name;
    e->contender = MakeContender(e->name, &problem_, variant.run, &executor_);
    const std::string obstacle = e->contender->Obstacle();
    if (!obstacle.empty()) {
      e->status = obstacle;
      return;
    }
    if (options_.project && e->contender->plan() != nullptr) {
      const Result<CpuProjection> predicted = ProjectPlan(*e->contender->plan(), machine_, executor_.workers());
      Require(predicted.status());
      e->predicted = *predicted;
    }
    std::fill(problem_.out.bytes.begin(), problem_.out.bytes.end(), std::byte{0xff});  // NaN: an element left out shows
    const double start = Seconds();
    e->contender->Run();
    e->times.Add(Seconds() - start);
    e->signature = Signature(case_, problem_.out);
    e->verdict = VerifySample(&problem_, e->contender->probability_type());
    if (!e->verdict.ok()) {
      e->status = fmt::format("wrong result: {}", e->verdict.where);
    } else if (e->times.all[0] > kLongestRun) {
      e->status = fmt::format("one run took {:.0f} s", e->times.all[0]);
    }
  }

  void MeasureRounds() {
    double slowest = 0;
    for (const Entry& e : entries_) {
      if (e.measurable()) slowest = std::max(slowest, e.times.all[0]);
    }
    const int rounds = slowest > 4 || options_.seconds == 0 ? 1 : slowest > 1.5 ? 2 : 5;
    const PeakMeter meter(executor_.parallel(), case_.KvBytes());
    for (Entry& e : entries_) e.times.all.clear();  // the first run met cold caches
    for (int round = 0; round < rounds && Interrupted() == 0; ++round) {
      std::vector<double> medians(entries_.size(), 0);
      for (size_t i = 0; i < entries_.size() && Interrupted() == 0; ++i) {
        const size_t at = (i + static_cast<size_t>(round)) % entries_.size();
        Entry& e = entries_[at];
        if (e.measurable()) medians[at] = MeasureOnce(meter, options_.seconds / rounds, &e);
      }
      for (size_t i = 0; i < entries_.size(); ++i) {
        if (medians[0] > 0 && medians[i] > 0) entries_[i].ratios.push_back(medians[i] / medians[0]);
      }
    }
    for (Entry& e : entries_) {
      if (e.measurable() && !e.peaks.empty()) e.peaks.push_back(meter.Measure(e.contender->kernel()));
    }
  }

  // Peaks, then runs; their median time.
  double MeasureOnce(const PeakMeter& meter, double seconds, Entry* e) {
    const Peaks peaks = meter.Measure(e->contender->kernel());
    const Times times = Measure(e->contender.get(), seconds);
    e->times.all.insert(e->times.all.end(), times.all.begin(), times.all.end());
    e->peaks.push_back(peaks);
    const double median = times.median();
    e->fractions.push_back(case_.decode() ? case_.KvBytes() / median / peaks.read_bytes
                                          : flops_ / median / ProductFlops(peaks));
    return median;
  }

  const BenchOptions& options_;
  DefaultExecutor& executor_;
  Machine machine_;
  BenchCase case_{};
  double flops_ = 0;
  Problem problem_;
  std::vector<Entry> entries_;
  ProjectionSummary summary_;
};

std::vector<BenchCase> ChooseCases(const BenchOptions& o) {
  std::vector<BenchCase> all = o.shapes.empty() ? BuiltInCases() : ReadCases(o.shapes);
  std::regex pattern;
  try {
    pattern = std::regex(o.cases);
  } catch (const std::regex_error& error) {
    Refuse("--cases {}: {}", o.cases, error.what());
  }
  std::erase_if(all, [&](const BenchCase& c) { return !std::regex_search(c.name, pattern); });
  if (all.empty()) Refuse("--cases {}: no case has such a name (--list shows them)", o.cases);
  return all;
}

void CheckOptions(const BenchOptions& o) {
  const std::vector<std::string>& known = ContenderNames();
  const std::vector<std::string> chosen = Split(o.impl);
  if (chosen.empty()) Refuse("--impl names no implementation");
  for (const std::string& name : chosen) {
    if (name == "onednn-graph") Refuse("--impl onednn-graph: {}", OneDnnGraphObstacle());
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      Refuse("--impl {}: expected some of {}", name, fmt::join(known, ","));
    }
  }
  o.input.Check();
  RequireKnownKernel(o.run.kernel);
}

// Progress with the time that is left, from the cases so far. Returns the exit code.
template <class Work>
int ForEachCase(const std::vector<BenchCase>& cases, Work work) {
  CatchInterrupts();
  Progress progress("case");
  const double start = Seconds();
  bool ok = true;
  for (size_t i = 0; i < cases.size() && Interrupted() == 0; ++i) {
    const double left =
        i == 0 ? 0 : (Seconds() - start) / static_cast<double>(i) * static_cast<double>(cases.size() - i);
    progress.Update(static_cast<int64_t>(i), static_cast<int64_t>(cases.size()),
                    fmt::format("{}{}", cases[i].name, i == 0 ? "" : fmt::format(", about {:.0f} s left", left)));
    ok = work(cases[i]) && ok;
  }
  if (Interrupted() == 0) return ok ? kExitOk : kExitFailed;
  fmt::print(stderr, "attenio bench: interrupted; what was measured is printed\n");
  return 128 + Interrupted();  // as shells report a signal
}

int RunBench(const BenchOptions& o) {
  CheckOptions(o);
  if (o.serve) {
    Serve({.cases = o.shapes.empty() ? BuiltInCases() : ReadCases(o.shapes), .impl = Split(o.impl)[0], .run = o.run},
          std::cin);
    return kExitOk;
  }
  const std::vector<BenchCase> cases = ChooseCases(o);
  if (o.list) {
    for (const BenchCase& c : cases) fmt::print("{}\n", c.name);
    return kExitOk;
  }
  if (!o.replay_threads.empty()) {
    return ForEachCase(cases, [&](const BenchCase& c) {
      Replay(c, o);
      return true;
    });
  }
  DefaultExecutor executor(o.run.threads);
  (void)o.run.ForPlan(executor.workers());
  Bench bench(o, &executor);
  const int code = ForEachCase(cases, [&](const BenchCase& c) { return bench.RunCase(c); });
  bench.summary().Print(o.json);
  return code;
}

}  // namespace

void AddBench(CLI::App& app, Action* action) {
  CLI::App* sub = app.add_subcommand("bench", "Time attention against baselines and the machine's peaks");
  const auto o = std::make_shared<BenchOptions>();
  sub->add_option("--shapes", o->shapes,
                  "A table of cases: name B Hq Hkv Nq Nkv D Dv causal dtype, first line a heading");
  sub->add_option("--cases", o->cases, "Only cases whose name matches this regular expression")->capture_default_str();
  sub->add_option("--impl", o->impl,
                  fmt::format("Implementations, compared run by run: {}", fmt::join(ContenderNames(), ", ")))
      ->capture_default_str();
  sub->add_option("--seconds", o->seconds, "Time for each implementation and case")
      ->check(Real(0, 3600))
      ->capture_default_str();
  o->input.AddTo(*sub);
  CLI::Option* ablation = sub->add_flag(
      "--ablation", o->ablation, "The exact implementation as it is and with each of its ideas off: x TIME RATIO");
  CLI::Option* project = sub->add_flag("--project", o->project,
                                       "Predicted beside measured time, from the rates of a calibrated machine alone");
  sub->add_option("--machine", o->machine, "File of `attenio calibrate` for --project (default: ATTENIO_MACHINE)");
  CLI::Option* replay = sub->add_option("--replay-threads", o->replay_threads,
                                        "Balance for these numbers of threads, e.g. 2,16,128: measured tasks, replayed")
                            ->delimiter(',')
                            ->check(CLI::Range(1, 1 << 16));
  sub->add_option("--replay-heads", o->replay_heads, "KV heads whose tasks are measured for --replay-threads")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  replay->excludes(ablation)->excludes(project);
  sub->add_flag("--explain", o->explain, "Also print the plan");
  sub->add_flag("--list", o->list, "Print the names of the cases");
  sub->add_flag("--serve", o->serve, "Read lines 'CASE SECONDS', answer each with a JSON line; '- 0' frees the case");
  sub->add_flag("--json", o->json, "One JSON object for each implementation and case");
  sub->footer(
      "SIGINT and SIGTERM end it after the run at hand: what is measured is printed, the exit code is 128 + the "
      "signal.");
  o->run.AddTo(*sub);
  sub->callback([=] { *action = [=] { return RunBench(*o); }; });
}

}  // namespace attenio::cli
