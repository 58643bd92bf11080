// attenio report: the hardware model.
#include <fmt/ranges.h>

#include <map>

#include "cli/report_figures.h"

namespace attenio::cli {
namespace {

constexpr const char* kDataflows[] = {"standard", "flat", "flash2"};

// A panel of bars: how much longer than attenio each dataflow takes, over length.
std::string SpeedupPanel(const Records& rows, int64_t d) {
  std::map<int64_t, std::map<std::string, double>> cycles;
  for (const auto& r : rows) {
    if (r["d"] == d) cycles[r["n"]][r["dataflow"]] = r["cycles"];
  }
  std::string data = fmt::format("$d{} << EOD\n", d);
  for (auto& [n, by_dataflow] : cycles) {
    data += fmt::format("\"{}K\"", n / 1024);
    for (const char* name : kDataflows) data += fmt::format(" {:.4g}", by_dataflow[name] / by_dataflow["attenio"]);
    data += "\n";
  }
  std::string plot;
  for (size_t i = 0; i < std::size(kDataflows); ++i) {
    plot += fmt::format("{}$d{} using {}{} title '{}'", i == 0 ? "plot " : ", ", d, i + 2, i == 0 ? ":xtic(1)" : "",
                        kDataflows[i]);
  }
  return data + fmt::format("EOD\nset title 'd = {}'\n", d) + plot + "\n";
}

}  // namespace

void ReportAccelerator(ReportPage* page) {
  page->Heading("The same schedule on an accelerator");
  page->Text(
      "A model of the AttenIO accelerator (2048 MACs, 512 KiB of cache, 128 GB/s) walks the steps of the schedule: how "
      "many times as "
      "long as attenio's other dataflows take on the same hardware.");
  const Records rows = page->Run("project", {"project", "--n", "8K,16K,32K,64K,128K", "--d", "64,128", "--dataflow",
                                             "attenio,flash2,flat,standard", "--json"});
  if (!rows.empty()) {
    page->Picture("accelerator", 1200, 480,
                  "set style data histograms\nset style histogram clustered gap 1\nset style fill solid 0.9 border lc "
                  "rgb 'black'\nunset grid\nset "
                  "grid y\nset logscale y 2\nset yrange [1:*]\nset xlabel 'queries = keys'\nset ylabel 'time over that "
                  "of attenio'\nset key top left\n"
                  "set multiplot layout 1,2\n" +
                      SpeedupPanel(rows, 64) + SpeedupPanel(rows, 128) + "unset multiplot\n",
                  "Bars at 1 would be as fast. FLAT suffers when whole rows of scores no longer fit, Standard writes "
                  "all scores.");
  }
  page->Text("The published figures beside the model's:");
  Records paper = page->Run("paper", {"project", "--paper", "--json"});
  std::erase_if(paper, [](const auto& r) { return !r.contains("published") || r["published"].is_null(); });
  page->Table(paper, {{"item", "figure"},
                      {"head_dim", "d"},
                      {"published", "published", 4},
                      {"model", "model", 4},
                      {"relative_difference", "relative difference", 4},
                      {"where", "where"}});
  page->Command(
      "overlap", {"project", "--n", "8192", "--d", "64", "--picture"},
      "What overlaps: keys and values (green) arrive during the products (blue), which wait only for the exponentials "
      "(red) "
      "to fill their pipeline. Between two query tiles the next queries are loaded while the last products run; the "
      "array then waits "
      "for the rest of them and for one key behind the finished rows, once in as many steps as there are keys.");
}

}  // namespace attenio::cli
