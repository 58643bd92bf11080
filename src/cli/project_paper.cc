// attenio project --paper: tables, reading and picture.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/error.h"
#include "cli/picture.h"
#include "cli/project.h"
#include "hw/paper.h"

namespace attenio::cli {
namespace {

using hw::PaperRow;
using nlohmann::ordered_json;

void PrintLine(const PaperRow& row, const char* kind) {
  const ordered_json none = nullptr;
  const ordered_json line = {
      {"item", row.item},
      {"head_dim", row.head_dim > 0 ? ordered_json(row.head_dim) : none},
      {"published", row.published ? ordered_json(*row.published) : none},
      {"model", row.model},
      {"relative_difference", row.published ? ordered_json(row.model / *row.published - 1) : none},
      {"kind", kind},
      {"where", row.where.empty() ? none : ordered_json(row.where)}};
  fmt::print("{}\n", line.dump());
}

void PrintCsvLine(const PaperRow& row, const char* kind) {
  fmt::print("{},{},{},{:.9g},{},{},\"{}\"\n", row.item, row.head_dim > 0 ? std::to_string(row.head_dim) : "",
             row.published ? fmt::format("{}", *row.published) : "", row.model,
             row.published ? fmt::format("{:.6f}", row.model / *row.published - 1) : "", kind, row.where);
}

void PrintTable(const std::vector<PaperRow>& rows) {
  fmt::print("{:<44} {:>4} {:>10} {:>11} {:>8}  {}\n", "item", "d", "published", "model", "diff", "where");
  for (const PaperRow& row : rows) {
    fmt::print("{:<44} {:>4} {:>10} {:>11.5g} {:>8}  {}\n", row.item,
               row.head_dim > 0 ? std::to_string(row.head_dim) : "-",
               row.published ? fmt::format("{:g}", *row.published) : "-", row.model,
               row.published ? fmt::format("{:+.1f} %", 100 * (row.model / *row.published - 1)) : "", row.where);
  }
}

// Values of one head dimension by item.
class Values {
 public:
  Values(const std::vector<PaperRow>& rows, int64_t d) {
    for (const PaperRow& row : rows) {
      if (row.head_dim == d) values_[row.item] = row.model;
    }
  }
  double operator[](const char* item) const { return values_.at(item); }

 private:
  std::map<std::string, double> values_;
};

void PrintReading(const Values& v, int64_t d) {
  fmt::print("\nHead dimension {}, 64K tokens:\n", d);
  fmt::print("- Of flash2's time {:.0f} % is products, {:.0f} % serial softmax passes, {:.0f} % waits for K and V.\n",
             100 * v["flash2_pe_share"], 100 * v["flash2_softmax_share"], 100 * v["flash2_stall_share"]);
  fmt::print(
      "- Overlap alone makes flash2 {:.2f} times as fast, the pipelined softmax alone {:.2f}, the tall tile alone "
      "{:.2f}\n"
      "  (there the softmax passes of single keys undo what the tile saves). Overlap and softmax together: {:.2f}; the "
      "tile\n"
      "  then takes this to {:.2f}, because a key at a time costs two exponentials a score.\n",
      v["ladder_overlap_speedup"], v["ladder_softmax_speedup"], v["ladder_tile_speedup"],
      v["ladder_overlap_softmax_speedup"], v["ladder_overlap_softmax_tile_speedup"]);
  fmt::print(
      "- With the tall tile and its softmax in place ({:.2f}), overlap adds only {:.1f} %: K_j and V_j are a few "
      "cycles of\n"
      "  an iteration. Tile and overlap are two cures for the same {:.0f} %.\n",
      v["ladder_tile_softmax_speedup"],
      100 * (v["ladder_tile_softmax_overlap_speedup"] / v["ladder_tile_softmax_speedup"] - 1),
      100 * v["flash2_stall_share"]);
  fmt::print("- The tile alone changes the I/O: {:.1f} times less, overlap and softmax leave it as it is ({:.1f}).\n",
             v["ladder_tile_io_ratio"], v["ladder_overlap_softmax_io_ratio"]);
  fmt::print(
      "- Why I/O falls {:.0f} times and time {:.2f} times: with free I/O flash2 would be {:.2f} times as fast, with "
      "nothing but\n"
      "  products {:.2f} times. What is left to attenio, products only, is {:.2f}.\n",
      v["ladder_tile_io_ratio"], v["ladder_tile_softmax_overlap_speedup"], v["flash2_speedup_if_io_were_free"],
      v["flash2_speedup_if_only_products"], v["attenio_speedup_if_only_products"]);
  fmt::print(
      "- flash2 with Br = M/4d instead of min(M/4d, d) moves {:.2f} times as much as attenio and takes {:.2f} times as "
      "long;\n"
      "  with overlap and a pipelined softmax {:.2f} times (if its row reductions could be pipelined, and Br x Bc "
      "scores held).\n",
      v["flash2_quarter_tile_io_over_attenio"], v["flash2_quarter_tile_time_over_attenio"],
      v["flash2_quarter_tile_overlap_softmax_time_over_attenio"]);
  fmt::print("- Off-chip memory is {:.0f} % of flash2's energy and {:.0f} % of attenio's.\n",
             100 * v["flash2_memory_energy_share"], 100 * v["attenio_memory_energy_share"]);
  fmt::print("- Tiles of equal size (what a CPU schedule takes) are no faster: {:.3f}.\n",
             v["attenio_balanced_tile_speedup"]);
  fmt::print(
      "- FuseMax's dataflow on the same MACs, exponentials on them, takes {:.2f} times attenio's time and {:.2f} times "
      "its I/O:\n"
      "  it hides the softmax, which attenio does not.\n",
      v["fusemax_time_over_attenio"], v["fusemax_io_over_attenio"]);
  fmt::print(
      "- The paper's figures imply that memory latency is hidden. One row is loaded ahead, so this holds up to the 64 "
      "cycles of\n"
      "  a product: 50, 100, 200 cycles of latency slow attenio {:.2f}, {:.2f}, {:.2f} times, flash2 {:.2f}, {:.2f}, "
      "{:.2f} times.\n",
      v["attenio_latency_50_slowdown"], v["attenio_latency_100_slowdown"], v["attenio_latency_200_slowdown"],
      v["flash2_latency_50_slowdown"], v["flash2_latency_100_slowdown"], v["flash2_latency_200_slowdown"]);
}

}  // namespace

void PrintPaper(Output output) {
  const std::vector<PaperRow> figures = hw::PaperFigures(), predictions = hw::PaperPredictions(),
                              reading = hw::PaperReading();
  const std::pair<const std::vector<PaperRow>*, const char*> parts[] = {
      {&figures, "figure"}, {&predictions, "prediction"}, {&reading, "reading"}};
  if (output == Output::kText) {
    fmt::print(
        "AttenIO (ASPLOS 2026), Figures 10 to 13 and Table 3; hidden 2048, 512 KB, geometric means over 8K to 128K\n");
    PrintTable(figures);
    fmt::print("\nPredictions: the same parameters, nothing tuned again\n");
    PrintTable(predictions);
    fmt::print("\nWhere the gain over flash2 comes from\n");
    PrintTable(reading);
    for (const int64_t d : {64, 128}) PrintReading(Values(reading, d), d);
    return;
  }
  if (output == Output::kCsv) fmt::print("item,head_dim,published,model,relative_difference,kind,where\n");
  for (const auto& [rows, kind] : parts) {
    for (const PaperRow& row : *rows) output == Output::kJson ? PrintLine(row, kind) : PrintCsvLine(row, kind);
  }
}

namespace {

// gnuplot's inline data: one line per length, the model's value of each item prefix.
std::string Block(const char* name, const std::map<std::pair<std::string, int64_t>, PaperRow>& rows,
                  const std::vector<std::pair<std::string, int64_t>>& series) {
  std::string text = fmt::format("${} << EOD\n", name);
  for (const char* length : {"8K", "16K", "32K", "64K", "128K"}) {
    text += length;
    for (const auto& [prefix, d] : series) text += fmt::format(" {:.6g}", rows.at({prefix + length, d}).model);
    text += "\n";
  }
  return text + "EOD\n";
}

std::string Bars(const std::map<std::pair<std::string, int64_t>, PaperRow>& rows) {
  std::string text = "$bars << EOD\n";
  const std::tuple<const char*, const char*, double> items[] = {
      {"speedup_gm_over_flash2", "time x\\nflash2", 1}, {"speedup_gm_over_standard", "time x\\nstandard", 1},
      {"speedup_gm_over_flat", "time x\\nflat", 1},     {"pe_utilisation", "PE busy\\n(x 10)", 10},
      {"exp_utilisation", "EXP busy\\n(x 10)", 10},     {"energy_efficiency_over_flash2", "energy x\\nflash2", 1}};
  for (const auto& [item, label, factor] : items) {
    const PaperRow &a = rows.at({item, 64}), &b = rows.at({item, 128});
    text += fmt::format("\"{}\" {:.6g} {:.6g} {:.6g} {:.6g}\n", label, *a.published * factor, a.model * factor,
                        *b.published * factor, b.model * factor);
  }
  return text + "EOD\n";
}

}  // namespace

void DrawPaper(const std::string& path) {
  std::map<std::pair<std::string, int64_t>, PaperRow> rows;
  for (const PaperRow& row : hw::PaperFigures()) rows[{row.item, row.head_dim}] = row;
  std::string script;
  std::vector<std::pair<std::string, int64_t>> speedups, io, stalls;
  for (const int64_t d : {64, 128}) {
    for (const char* baseline : {"flash2", "standard", "flat"}) {
      speedups.push_back({fmt::format("speedup_over_{}_", baseline), d});
      io.push_back({fmt::format("io_ratio_{}_", baseline), d});
    }
    stalls.push_back({"stall_share_", d});
    stalls.push_back({"stall_share_flash2_", d});
  }
  script += Block("speedups", rows, speedups) + Block("io", rows, io) + Block("stalls", rows, stalls) + Bars(rows);
  script +=
      "set multiplot layout 2,2 margins 0.07,0.98,0.13,0.95 spacing 0.09,0.17\n"
      "set grid y lc rgb '#dddddd'\nset xlabel 'sequence length (tokens)'\nset logscale y\nset xrange [-0.3:4.3]\n"
      "set key top left samplen 2\n"
      "names = 'flash2 standard flat'\ncolours = '#1f77b4 #ff7f0e #2ca02c'\n"
      "set title 'Time of the baseline / time of attenio'\nset ylabel 'speed-up'\nset yrange [1:200]\n"
      "plot for [i=1:3] $speedups using 0:i+1:xtic(1) with linespoints lc rgb word(colours,i) pt 7 title "
      "word(names,i).', d = 64', "
      "for [i=1:3] $speedups using 0:i+4 with linespoints lc rgb word(colours,i) dt 2 pt 6 title word(names,i).', d = "
      "128'\n"
      "set title 'Off-chip bytes of the baseline / of attenio'\nset ylabel 'I/O ratio'\nset yrange [1:100000]\n"
      "plot for [i=1:3] $io using 0:i+1:xtic(1) with linespoints lc rgb word(colours,i) pt 7 title word(names,i).', d "
      "= 64', "
      "for [i=1:3] $io using 0:i+4 with linespoints lc rgb word(colours,i) dt 2 pt 6 title word(names,i).', d = 128'\n"
      "set title 'Share of the time in which the array waits for memory'\nset ylabel 'stall share (%)'\nset yrange "
      "[0.01:1000]\n"
      "plot $stalls using 0:(100*$2):xtic(1) with linespoints lc rgb '#d62728' pt 7 title 'attenio, d = 64', "
      "'' using 0:(100*$4) with linespoints lc rgb '#d62728' dt 2 pt 6 title 'attenio, d = 128', "
      "'' using 0:(100*$3) with linespoints lc rgb '#1f77b4' pt 7 title 'flash2, d = 64', "
      "'' using 0:(100*$5) with linespoints lc rgb '#1f77b4' dt 2 pt 6 title 'flash2, d = 128'\n"
      "unset logscale y\nset title 'Published and modelled, geometric means over 8K to 128K'\nset ylabel 'ratio, or "
      "share x 10'\n"
      "set yrange [0:12]\nset xrange [*:*]\nset xlabel ''\nset style data histograms\nset style histogram clustered "
      "gap 1\n"
      "set style fill solid 0.9 border -1\nset xtics scale 0 font ',10'\nset key top right\n"
      "plot $bars using 2:xtic(1) title 'published, d = 64' lc rgb '#aec7e8', '' using 3 title 'model, d = 64' lc rgb "
      "'#1f77b4', "
      "'' using 4 title 'published, d = 128' lc rgb '#ffbb78', '' using 5 title 'model, d = 128' lc rgb '#ff7f0e'\n"
      "unset multiplot\n";
  DrawPicture(path, 1500, 1050, script);
}

}  // namespace attenio::cli
