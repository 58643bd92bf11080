// attenio report: the machine, correctness, traffic and accuracy.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/report_figures.h"

namespace attenio::cli {

void ReportMachine(ReportPage* page) {
  page->Heading("This machine");
  page->Preformatted(page->RunText({"info"}));
  page->Text("What it reaches, measured now; the schedules and projections of this page read the file.");
  page->Preformatted(page->RunText({"calibrate", "--out", page->Path("machine.json")}));
}

void ReportCorrectness(ReportPage* page) {
  page->Heading("Is it right");
  page->Text(
      "Random problems of every layout and modifier against a reference in double precision. The bound is what the "
      "number "
      "formats allow, computed for every element; 1 would be just inside.");
  const Records cases = page->Run("check", {"check", "--cases", "500", "--json"});
  double worst = 0;
  std::map<std::string, int> count;
  for (const auto& r : cases) {
    ++count[r.value("status", "?")];
    if (r.contains("worst_error") && r["worst_error"].is_number())
      worst = std::max(worst, r["worst_error"].get<double>());
  }
  std::string text;
  for (const auto& [status, n] : count) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, Escape(status));
  page->Text(fmt::format("{}; largest error / bound {:.3f}.", text, worst));
}

void ReportTraffic(ReportPage* page) {
  page->Heading("What moves");
  page->Text(
      "Bytes across the boundary of L2 for one head of f32, 4096 queries and keys, dimension 128: what each dataflow "
      "moves with its "
      "best tile, and the least that its bound allows. <em>Score-once</em> holds for any method that computes each "
      "score once, "
      "<em>pairs-resident</em> for those that use a score while its query, key and value are at hand, "
      "<em>compulsory</em> for all.");
  const Records rows = page->Run("io", {"io", "--n", "4096", "--d", "128", "--dataflow", "all", "--json"});
  // The first rows are the levels of the solved schedule, then one row for every dataflow at L2.
  std::string data = "$io << EOD\n", solved;
  std::map<std::string, int> seen;
  for (const auto& r : rows) {
    if (r["level"] != "L2") continue;
    std::string name = r["dataflow"];
    if (seen.empty()) name = "solved for LRU";
    ++seen[name];
    data += fmt::format("\"{}\" {:.6g} {:.6g}\n", name, r["bytes_predicted"].get<double>() / 1e6,
                        r["bytes_bound"].get<double>() / 1e6);
  }
  if (seen.empty()) return;
  page->Picture("traffic", 1000, 480,
                data +
                    "EOD\nset style data histograms\nset style histogram clustered gap 1\nset style fill solid 0.9 "
                    "border -1\n"
                    "set ylabel 'MB across the boundary of L2'\nset yrange [0:*]\nset xtics rotate by -25 "
                    "noenhanced\nset key top left\nunset grid\n"
                    "set grid y\nplot $io using 2:xtic(1) title 'moved', $io using 3 title 'lower bound'\n",
                "The first pair is the schedule that runs here. It leaves room for a cache that evicts what was used "
                "longest ago, so it moves more "
                "than the same dataflow would in a memory managed by hand (second pair).");
  page->Table(rows, {{"level", "level"},
                     {"dataflow", "dataflow"},
                     {"schedule", "schedule"},
                     {"bytes_predicted", "bytes predicted", 0},
                     {"bytes_simulated", "simulated", 0},
                     {"bytes_bound", "bound", 0},
                     {"bound_kind", "bound holds for"}});
}

void ReportAccuracy(ReportPage* page) {
  page->Heading("Approximate attention: error against time");
  const Records rows = page->Run("accuracy", {"accuracy", "--threads", std::to_string(page->threads()), "--json"});
  std::map<std::string, std::vector<std::pair<double, double>>> methods;
  for (const auto& r : rows) {
    const double time = r.value("time_ms", 0.0), error = r.value("error_max", 0.0);
    if (time > 0 && error > 0) methods[r.value("method", "?")].push_back({time, error});
  }
  if (methods.empty()) return;
  std::string data, plot;
  for (const auto& [name, points] : methods) {
    const std::string block = fmt::format("a{}", std::distance(methods.begin(), methods.find(name)));
    data += DataBlock(block, points);
    plot += fmt::format("{}${} using 1:2 with points ps 1.2 title '{}'", plot.empty() ? "plot " : ", ", block, name);
  }
  page->Picture("accuracy", 1000, 560,
                data +
                    "set logscale xy\nset format y '10^{%L}'\nset xlabel 'time (ms)'\nset ylabel 'largest error, "
                    "relative to the range of V'\n"
                    "set key outside right top noenhanced\n" +
                    plot + "\n",
                "Every method over every distribution of the run: lower left is better. Polynomial attention comes "
                "with a certified bound; the "
                "other approximations have none.");
  page->Table(rows, {{"method", "method"},
                     {"distribution", "distribution"},
                     {"n", "n"},
                     {"d", "d"},
                     {"degree", "degree"},
                     {"error_max", "largest error", 6},
                     {"certified", "certified", 6},
                     {"exact_rows", "exact rows", 3},
                     {"time_ms", "time ms", 2},
                     {"speedup_over_exact", "speed-up over exact", 2}});
}

}  // namespace attenio::cli
