#include "cli/bench_report.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

int64_t PeakRss() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// null: not measured, or the processor does not have it.
ordered_json Known(double value, double unit) { return value > 0 ? ordered_json(value * unit) : ordered_json(nullptr); }

bool Quiet(const Entry& e) {
  return !e.peaks.empty() &&
         std::all_of(e.peaks.begin(), e.peaks.end(), [](const Peaks& p) { return QuietProducts(p.product_cycles); });
}

const char* const kAbovePeak = "above 1: the peak was measured while the machine was slower than in the run";

ordered_json Line(const BenchReport& report, const Entry& e) {
  const BenchCase& c = report.bench_case;
  ordered_json line{{"impl", e.name}, {"case", c.name}, {"threads", report.threads}};
  if (!e.variant.empty()) line["variant"] = e.variant;
  if (!e.measurable()) {
    line["status"] = e.status;
    return line;
  }
  const double median = e.times.median();
  const Peaks& first = e.peaks.front();
  line.update({{"median_ms", median * 1e3},
               {"min_ms", e.times.min() * 1e3},
               {"max_ms", e.times.max() * 1e3},
               {"runs", e.times.all.size()},
               {"gflops", report.flops / median * 1e-9},
               {"gbps", c.KvBytes() / median * 1e-9},
               {"kernel", e.contender->kernel()},
               {"schedule", e.contender->schedule()},
               {"status", e.status},
               {"peak_fraction", Median(e.fractions)},
               {"peak_fma", MedianPeak(e, &Peaks::fma_flops) * 1e-9},
               {"peak_tensor", Known(MedianPeak(e, &Peaks::tensor_flops), 1e-9)},
               {"peak_tensor_l1", Known(MedianPeak(e, &Peaks::tensor_l1_flops), 1e-9)},
               {"peak_exp", Known(MedianPeak(e, &Peaks::exp_rate), 1e-9)},
               {"peak_product", ProductFlops(first) > 0 ? Known(Median([&] {
                                                                  std::vector<double> all;
                                                                  for (const Peaks& p : e.peaks)
                                                                    all.push_back(ProductFlops(p));
                                                                  return all;
                                                                }()),
                                                                1e-9)
                                                        : ordered_json(nullptr)},
               {"product", ProductName(first)},
               {"read_gbps", MedianPeak(e, &Peaks::read_bytes) * 1e-9},
               {"product_cycles_before", Known(first.product_cycles, 1)},
               {"product_cycles_after", Known(e.peaks.back().product_cycles, 1)},
               {"quiet", Quiet(e)},
               {"workspace_bytes", e.contender->workspace_bytes()},
               {"peak_rss_bytes", PeakRss()}});
  if (Median(e.fractions) > 1) line["note"] = fmt::format("peak_fraction {}", kAbovePeak);
  if (!e.variant.empty()) line["time_ratio"] = Median(e.ratios);
  if (e.contender->bytes_predicted()) line["bytes_predicted"] = *e.contender->bytes_predicted();
  if (e.contender->bytes_bound()) line["bytes_bound"] = *e.contender->bytes_bound();
  if (e.predicted) {
    line["predicted_ms"] = e.predicted->seconds * 1e3;
    line["predicted_over_measured"] = e.predicted->seconds / median;
    line["predicted_bound"] = e.predicted->bound;
    line["predicted_parts_ms"] = {{"products", e.predicted->product_seconds * 1e3},
                                  {"softmax", e.predicted->exp_seconds * 1e3},
                                  {"packing", e.predicted->packing_seconds * 1e3}};
  }
  line["error_over_bound"] = e.verdict.worst;
  line["sig"] = e.signature;
  if (report.options.explain) line["explain"] = e.contender->explain();
  return line;
}

std::string Text(const BenchReport& report, const Entry& e) {
  const BenchCase& c = report.bench_case;
  std::string text =
      fmt::format("{:<28} {:<6} {}", c.name, e.name, e.variant.empty() ? "" : fmt::format("{:<18} ", e.variant));
  if (!e.measurable()) return text + e.status + "\n";
  const double median = e.times.median(), fraction = Median(e.fractions);
  const double rate = c.decode() ? c.KvBytes() / median : report.flops / median;
  const double peak = rate / std::max(fraction, 1e-30);
  text += fmt::format("{:>10.3f} ms  ", median * 1e3);
  if (e.predicted) {
    text += fmt::format("predicted {:>10.3f} ms ({:.2f}, {})  ", e.predicted->seconds * 1e3,
                        e.predicted->seconds / median, e.predicted->bound);
  }
  if (!e.variant.empty()) text += fmt::format("x {:.3f}  ", Median(e.ratios));
  text += fmt::format("{:>7.2f} {}  {:.2f} of the {} peak {:.1f}  error/bound {:.2f}  {}", rate * 1e-9,
                      c.decode() ? "GB/s   " : "GFLOP/s", fraction, c.decode() ? "read" : ProductName(e.peaks.front()),
                      peak * 1e-9, e.verdict.worst, e.contender->kernel());
  const double before = e.peaks.front().product_cycles, after = e.peaks.back().product_cycles;
  if (before > 0)
    text += fmt::format("  {} ({:.2f}, {:.2f} cycles a product)", Quiet(e) ? "quiet" : "NOT quiet", before, after);
  if (fraction > 1) text += fmt::format("  {}", kAbovePeak);
  return text + "\n";
}

}  // namespace

double Median(std::vector<double> values) {
  Times times;
  times.all = std::move(values);
  return times.all.empty() ? 0 : times.median();
}

double MedianPeak(const Entry& entry, double Peaks::*peak) {
  std::vector<double> all;
  for (const Peaks& p : entry.peaks) all.push_back(p.*peak);
  return Median(std::move(all));
}

void BenchReport::Print(const Entry& e) const {
  std::string text;
  if (options.json) {
    text = Line(*this, e).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  } else {
    if (options.explain && e.measurable()) text = e.contender->explain();
    text += Text(*this, e);
  }
  fmt::print("{}", text);
  std::fflush(stdout);
}

void ProjectionSummary::Add(const std::string& bench_case, const Entry& e) {
  if (e.predicted && e.measurable()) rows_.push_back({bench_case, e.predicted->seconds / e.times.median()});
}

void ProjectionSummary::Print(bool json) const {
  if (rows_.empty()) return;
  std::vector<Row> worst = rows_;
  const auto off = [](const Row& r) { return std::abs(r.ratio - 1); };
  std::sort(worst.begin(), worst.end(), [off](const Row& a, const Row& b) { return off(a) > off(b); });
  const auto within = [&](double limit) {
    return std::count_if(worst.begin(), worst.end(), [&](const Row& r) { return off(r) <= limit; });
  };
  std::string text =
      fmt::format("predicted / measured: {} of {} cases within 20 %, {} within 10 %; worst:", within(0.2), worst.size(),
                  within(0.1));
  for (size_t i = 0; i < std::min<size_t>(5, worst.size()); ++i)
    text += fmt::format(" {} {:.2f}", worst[i].name, worst[i].ratio);
  fmt::print(json ? stderr : stdout, "{}\n", text);
}

}  // namespace attenio::cli
