// attenio report: time over length, and the roofline.
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "cli/command.h"
#include "cli/machine_file.h"
#include "cli/report_figures.h"

namespace attenio::cli {
namespace {

using Points = std::vector<std::pair<double, double>>;

// "pre-f32-d64-n4096" without its length, and the length.
std::pair<std::string, double> SplitName(const std::string& name) {
  const size_t at = name.rfind("-n");
  return {name.substr(0, at), std::stod(name.substr(at + 2))};
}

// One curve per (case, implementation); y is a key of the bench records.
std::map<std::pair<std::string, std::string>, Points> Curves(const Records& records, const char* key) {
  std::map<std::pair<std::string, std::string>, Points> curves;
  for (const auto& r : records) {
    const auto [name, n] = SplitName(r["case"]);
    if (name.starts_with("pre-")) curves[{name.substr(4), r["impl"]}].push_back({n, r[key]});
  }
  return curves;
}

// A colour for every case, a solid line for attenio and a dashed one for what it is compared with.
std::string PlotCurves(const Records& records, const char* key) {
  std::string data, plot, last;
  int colour = 0, index = 0;
  for (const auto& [name, points] : Curves(records, key)) {
    const auto& [problem, implementation] = name;
    if (problem != last) ++colour;
    last = problem;
    const std::string block = fmt::format("{}{}", key, index++);
    const bool ours = implementation == "exact";
    data += DataBlock(block, points);
    plot += fmt::format("{}${} using 1:2 with linespoints lt {} dt {} title '{} {}'", plot.empty() ? "plot " : ", ",
                        block, colour, ours ? 1 : 2, ours ? "attenio" : implementation, problem);
  }
  return data + plot + "\n";
}

void DrawSpeed(ReportPage* page, const Records& records) {
  const std::string axes =
      "set logscale x 2\nset xrange [450:4600]\nset xtics (512, 1024, 2048, 4096)\nset xlabel 'queries = keys'\n";
  const std::string script =
      axes +
      "set multiplot layout 1,2\nset key top left\nset logscale y\nset ylabel 'time (ms)'\nset title 'Time of a "
      "call'\n" +
      PlotCurves(records, "median_ms") +
      "unset logscale y\nset key off\nset yrange [0:*]\nset ylabel 'GFLOP/s'\nset title 'Rate'\n" +
      PlotCurves(records, "gflops") + "unset multiplot\n";
  page->Picture(
      "speed", 1200, 520, script,
      "Prefill of four heads. The two implementations take turns in one run; every result is compared with the f64 "
      "reference before it is timed.");
}

struct Roof {
  std::string name;
  double rate, bandwidth;  // flop/s, byte/s; one of them 0
};

std::vector<Roof> Roofs(const Machine& m, int threads) {
  std::vector<Roof> roofs = {{"f32 multiply-add peak", m.fma_flops * threads, 0}};
  if (m.dot_bf16_flops > 1.2 * m.fma_flops) roofs.push_back({"bf16 dot peak", m.dot_bf16_flops * threads, 0});
  if (m.tensor_flops > 0) roofs.push_back({"bf16 tensor peak", m.tensor_flops * threads, 0});
  const MemoryLevel& memory = m.levels.back();
  const double each = threads > 1 ? memory.shared_bytes_per_second : memory.bytes_per_second;
  roofs.push_back({"memory", 0, each * threads});
  return roofs;
}

void DrawRoofline(ReportPage* page, const Records& records, const Machine& machine) {
  const std::vector<Roof> roofs = Roofs(machine, page->threads());
  const double memory = roofs.back().bandwidth;
  std::string script =
      "set logscale xy\nset xrange [0.3:4000]\nset xlabel 'flop per byte that the schedule moves into L2'\nset ylabel "
      "'GFLOP/s'\n"
      "set key bottom right\nset samples 500\n";
  std::string plot;
  int line = 1;
  for (const Roof& roof : roofs) {
    if (roof.rate == 0) continue;
    plot += fmt::format(
        "{}(x * {:.6g} < {:.6g} ? x * {:.6g} : {:.6g}) with lines lt {} lw 2 dt 1 title '{}, {:.0f} GFLOP/s'",
        plot.empty() ? "plot " : ", ", memory * 1e-9, roof.rate * 1e-9, memory * 1e-9, roof.rate * 1e-9, line++,
        roof.name, roof.rate * 1e-9);
  }
  std::map<std::string, Points> groups;
  for (const auto& r : records) {
    if (r["impl"] != "exact" || r.value("bytes_predicted", 0.0) <= 0) continue;
    const double flops = r["gflops"].get<double>() * r["median_ms"].get<double>() * 1e6;
    const std::string name = r["case"];
    const std::string type = name.find("bf16") != std::string::npos ? "bf16" : "f32";
    groups[(name.starts_with("dec") ? "decode " : "prefill ") + type].push_back(
        {flops / r["bytes_predicted"].get<double>(), r["gflops"]});
  }
  for (const auto& [name, points] : groups) {
    const std::string block = fmt::format("r{}", std::distance(groups.begin(), groups.find(name)));
    script += DataBlock(block, points);
    plot += fmt::format(", ${} using 1:2 with points lt {} ps 1.3 title '{}'", block, line++, name);
  }
  page->Picture(
      "roofline", 900, 520, script + plot + "\n",
      fmt::format(
          "Roofline of this machine with attenio's calls on it. The slope is the memory bandwidth, {:.1f} GB/s with {} "
          "thread{}; decode lies on it (above it, when the keys stay in a cache), prefill under the roof.",
          memory * 1e-9, page->threads(), page->threads() == 1 ? "" : "s"));
}

}  // namespace

void ReportSpeed(ReportPage* page) {
  page->Heading("How fast");
  const Records all = page->Run(
      "bench", {"bench", "--cases", "^(pre-(f32|bf16)-d(64|128)-n(512|2048|4096)|dec-(f32|bf16)-n(1024|8192|32768))$",
                "--impl", "exact,onednn", "--seconds", "0.3", "--threads", std::to_string(page->threads()), "--json"});
  Records timed;
  std::copy_if(all.begin(), all.end(), std::back_inserter(timed),
               [](const auto& r) { return r.value("status", "") == "ok"; });
  if (timed.empty()) return;
  DrawSpeed(page, timed);
  std::ifstream file(page->Path("machine.json"));
  if (file) DrawRoofline(page, timed, LoadMachine(page->Path("machine.json")));
  page->Table(timed, {{"case", "case"},
                      {"impl", "implementation"},
                      {"kernel", "kernel"},
                      {"median_ms", "median ms", 3},
                      {"gflops", "GFLOP/s", 1},
                      {"peak_fraction", "of the peak", 2},
                      {"error_over_bound", "error / bound", 3}});
  page->Text(
      "<em>Of the peak</em>: of the rate of the products that the kernel is made of, measured just before and after; "
      "for decode "
      "of the rate at which memory is read. <em>Error / bound</em>: largest difference from the f64 reference over "
      "what "
      "the number formats allow.");
}

}  // namespace attenio::cli
