// attenio bench: implementations of attention, interleaved and verified, as fractions of peaks measured in the same rounds.
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cli/bench_case.h"
#include "cli/bench_serve.h"
#include "cli/command.h"
#include "cli/contender.h"
#include "cli/peaks.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

struct BenchOptions {
  std::string shapes, cases = ".*", impl = "exact,naive", window;
  double seconds = 0.5, softcap = 0;
  bool json = false, serve = false, explain = false, list = false;
  RunOptions run;
};

// One implementation of the case at hand.
struct Entry {
  std::string name;
  std::unique_ptr<Contender> contender;
  std::string status = "ok";
  Verdict verdict;
  std::vector<double> signature;
  Times times;
  std::vector<double> fractions;  // of the peak, one per round
  Times fma, product, read;       // peaks, one per round; product: of what the kernel is made of
  const char* product_name = "FMA";

  bool measurable() const { return status == "ok"; }
};

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

double Median(std::vector<double> values) {
  Times times;
  times.all = std::move(values);
  return times.all.empty() ? 0 : times.median();
}

int64_t PeakRss() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

class Bench {
 public:
  Bench(const BenchOptions& options, DefaultExecutor* executor) : options_(options), executor_(*executor) {}

  // False when an implementation failed its check.
  bool RunCase(const BenchCase& bench_case) {
    case_ = bench_case;
    problem_ = MakeProblem(bench_case);
    problem_.desc.softcap = options_.softcap;
    if (!options_.window.empty()) ParseWindow(options_.window, &problem_.desc);
    entries_.clear();
    for (const std::string& name : Split(options_.impl)) {
      entries_.push_back({});
      Prepare(name, &entries_.back());
    }
    MeasureRounds();
    bool ok = true;
    for (const Entry& entry : entries_) {
      if (options_.json) {
        fmt::print("{}\n", Line(entry).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
      } else {
        PrintText(entry);
      }
      ok = ok && entry.verdict.ok();
    }
    std::fflush(stdout);  // what is measured is kept, whatever happens next
    return ok;
  }

 private:
  // Makes it, runs it once and verifies the result.
  void Prepare(const std::string& name, Entry* e) {
    e->name = name;
    e->contender = MakeContender(name, &problem_, options_.run, &executor_);
    const std::string obstacle = e->contender->Obstacle();
    if (!obstacle.empty()) {
      e->status = obstacle;
      return;
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
    const int rounds = slowest > 4 ? 1 : slowest > 1.5 ? 2 : 5;
    const PeakMeter meter(executor_.parallel(), case_.KvBytes());
    for (Entry& e : entries_) e.times.all.clear();  // the first run met cold caches
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < entries_.size(); ++i) {
        Entry& e = entries_[(i + static_cast<size_t>(round)) % entries_.size()];
        if (e.measurable()) MeasureOnce(meter, options_.seconds / rounds, &e);
      }
    }
  }

  void MeasureOnce(const PeakMeter& meter, double seconds, Entry* e) {
    const Peaks peaks = meter.Measure(e->contender->kernel());
    const Times times = Measure(e->contender.get(), seconds);
    e->times.all.insert(e->times.all.end(), times.all.begin(), times.all.end());
    e->fma.Add(peaks.fma_flops);
    e->product.Add(ProductFlops(peaks));
    e->product_name = ProductName(peaks);
    e->read.Add(peaks.read_bytes);
    const double median = times.median();
    const double fraction =
        case_.decode() ? case_.KvBytes() / median / peaks.read_bytes : case_.Flops() / median / ProductFlops(peaks);
    e->fractions.push_back(fraction);
  }

  ordered_json Line(const Entry& e) const {
    ordered_json line{{"impl", e.name}, {"case", case_.name}, {"threads", executor_.workers()}};
    if (!e.measurable()) {
      line["status"] = e.status;
      return line;
    }
    const double median = e.times.median();
    line.update({{"median_ms", median * 1e3},
                 {"min_ms", e.times.min() * 1e3},
                 {"max_ms", e.times.max() * 1e3},
                 {"runs", e.times.all.size()},
                 {"gflops", case_.Flops() / median * 1e-9},
                 {"gbps", case_.KvBytes() / median * 1e-9},
                 {"kernel", e.contender->kernel()},
                 {"schedule", e.contender->schedule()},
                 {"status", e.status},
                 {"peak_fraction", Median(e.fractions)},
                 {"peak_fma", e.fma.median() * 1e-9},
                 {"peak_product", e.product.median() * 1e-9},
                 {"product", e.product_name},
                 {"read_gbps", e.read.median() * 1e-9},
                 {"workspace_bytes", e.contender->workspace_bytes()},
                 {"peak_rss_bytes", PeakRss()}});
    if (e.contender->bytes_predicted()) line["bytes_predicted"] = *e.contender->bytes_predicted();
    if (e.contender->bytes_bound()) line["bytes_bound"] = *e.contender->bytes_bound();
    line["error_over_bound"] = e.verdict.worst;
    line["sig"] = e.signature;
    if (options_.explain) line["explain"] = e.contender->explain();
    return line;
  }

  void PrintText(const Entry& e) const {
    if (options_.explain && e.measurable()) fmt::print("{}", e.contender->explain());
    fmt::print("{:<28} {:<6} ", case_.name, e.name);
    if (!e.measurable()) {
      fmt::print("{}\n", e.status);
      return;
    }
    const double median = e.times.median();
    const double rate = case_.decode() ? case_.KvBytes() / median : case_.Flops() / median;
    const double peak = case_.decode() ? e.read.median() : e.product.median();
    fmt::print("{:>10.3f} ms  {:>7.2f} {}  {:.2f} of the {} peak {:.1f}  error/bound {:.2f}  {}\n", median * 1e3, rate * 1e-9,
               case_.decode() ? "GB/s   " : "GFLOP/s", Median(e.fractions), case_.decode() ? "read" : e.product_name, peak * 1e-9,
               e.verdict.worst, e.contender->kernel());
  }

  const BenchOptions& options_;
  DefaultExecutor& executor_;
  BenchCase case_{};
  Problem problem_;
  std::vector<Entry> entries_;
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

void CheckImplementations(const BenchOptions& o) {
  const std::vector<std::string>& known = ContenderNames();
  const std::vector<std::string> chosen = Split(o.impl);
  if (chosen.empty()) Refuse("--impl names no implementation");
  for (const std::string& name : chosen) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      Refuse("--impl {}: expected some of {}", name, fmt::join(known, ","));
    }
  }
}

int RunBench(const BenchOptions& o) {
  CheckImplementations(o);
  RequireKnownKernel(o.run.kernel);
  if (o.serve) {
    Serve({.cases = o.shapes.empty() ? BuiltInCases() : ReadCases(o.shapes), .impl = Split(o.impl)[0], .run = o.run}, std::cin);
    return kExitOk;
  }
  const std::vector<BenchCase> cases = ChooseCases(o);
  if (o.list) {
    for (const BenchCase& c : cases) fmt::print("{}\n", c.name);
    return kExitOk;
  }
  DefaultExecutor executor(o.run.threads);
  (void)o.run.ForPlan(executor.workers());
  Bench bench(o, &executor);
  Progress progress("case");
  const double start = Seconds();
  bool ok = true;
  for (size_t i = 0; i < cases.size(); ++i) {
    const double left = i == 0 ? 0 : (Seconds() - start) / static_cast<double>(i) * static_cast<double>(cases.size() - i);
    progress.Update(static_cast<int64_t>(i), static_cast<int64_t>(cases.size()),
                    fmt::format("{}{}", cases[i].name, i == 0 ? "" : fmt::format(", about {:.0f} s left", left)));
    ok = bench.RunCase(cases[i]) && ok;
  }
  return ok ? kExitOk : kExitFailed;
}

}  // namespace

void AddBench(CLI::App& app, Action* action) {
  CLI::App* sub = app.add_subcommand("bench", "Time attention against baselines and the machine's peaks");
  const auto o = std::make_shared<BenchOptions>();
  sub->add_option("--shapes", o->shapes, "A table of cases: name B Hq Hkv Nq Nkv D Dv causal dtype, first line a heading");
  sub->add_option("--cases", o->cases, "Only cases whose name matches this regular expression")->capture_default_str();
  sub->add_option("--impl", o->impl, fmt::format("Implementations, compared run by run: {}", fmt::join(ContenderNames(), ", ")))
      ->capture_default_str();
  sub->add_option("--seconds", o->seconds, "Time for each implementation and case")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  sub->add_option("--window", o->window, "LEFT,RIGHT keys around the position, -1 = no limit");
  sub->add_option("--softcap", o->softcap, "s = softcap tanh(s / softcap)");
  sub->add_flag("--explain", o->explain, "Also print the plan");
  sub->add_flag("--list", o->list, "Print the names of the cases");
  sub->add_flag("--serve", o->serve, "Read lines 'CASE SECONDS', answer each with a JSON line; '- 0' frees the case");
  sub->add_flag("--json", o->json, "One JSON object for each implementation and case");
  o->run.AddTo(*sub);
  sub->callback([=] { *action = [=] { return RunBench(*o); }; });
}

}  // namespace attenio::cli
