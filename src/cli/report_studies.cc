// attenio report: the machine, correctness, traffic and accuracy.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

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

namespace {

// One panel: a distribution; a colour for every method, the same in all panels.
std::string ErrorPanel(const Records& rows, const std::string& distribution, const std::vector<std::string>& methods) {
  std::string data, plot;
  for (size_t i = 0; i < methods.size(); ++i) {
    std::vector<std::pair<double, double>> points;
    for (const auto& r : rows) {
      const double time = r.value("time_ms", 0.0), error = r.value("error_max", 0.0);
      if (r["distribution"] == distribution && r["method"] == methods[i] && time > 0 && error > 0)
        points.push_back({time, error});
    }
    if (points.empty()) continue;
    const std::string block = fmt::format("{}{}", distribution, i);
    data += DataBlock(block, points);
    plot += fmt::format("{}${} using 1:2 with points lt {} ps 1.3 title '{}'", plot.empty() ? "plot " : ", ", block,
                        i + 1, methods[i]);
  }
  return data + fmt::format("set title '{}'\n", distribution) + plot + "\n";
}

}  // namespace

void ReportAccuracy(ReportPage* page) {
  page->Heading("Approximate attention: error against time");
  page->Text(
      "f32, 8192 queries and keys, dimension 32. <em>Bounded</em>: no score beyond 0.5. <em>Clustered</em>: 64 groups "
      "of keys, scores of a "
      "group within 0.5 of each other. <em>LLM</em>: rotary positions, low-rank keys, a sink token.");
  const Records rows = page->Run(
      "accuracy", {"accuracy", "--dist", "bounded,clustered,llm", "--n", "8192", "--bound", "0.5", "--max-error",
                   "0.1,0.01,0.001", "--repeats", "1", "--threads", std::to_string(page->threads()), "--json"});
  if (rows.empty()) return;
  std::string script =
      "set logscale xy\nset format y '10^{%L}'\nset format x '%g'\nset xlabel 'time (ms)'\nset xrange [0.5:2000]\nset "
      "yrange [1e-9:2]\nset ylabel "
      "'largest error / range of V'\nset multiplot layout 1,3\nset key bottom left noenhanced\n";
  for (const char* distribution : {"bounded", "clustered", "llm"}) {
    script +=
        ErrorPanel(rows, distribution, {"exact", "poly", "groups", "taylor", "performer", "nystrom"}) + "set key off\n";
  }
  page->Picture("accuracy", 1300, 480, script + "unset multiplot\n",
                "Lower left is better; poly and groups are asked for errors of 0.1, 0.01 and 0.001 and certify what "
                "they return, or take "
                "the exact path where no polynomial would win. Taylor, Performer and Nystrom certify nothing.");
  page->Table(rows, {{"method", "method"},
                     {"distribution", "distribution"},
                     {"max_error", "asked"},
                     {"degree", "degree"},
                     {"error_max", "largest error", 7},
                     {"certified", "certified", 5},
                     {"exact_rows", "exact rows", 3},
                     {"time_ms", "time ms", 2},
                     {"speedup_over_exact", "speed-up over exact", 2}});
}

}  // namespace attenio::cli
