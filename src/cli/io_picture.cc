#include "cli/io_picture.h"

#include <map>

#include "cli/command.h"
#include "cli/picture.h"

namespace attenio::cli {
namespace {

struct Series {
  std::vector<std::pair<double, double>> points;
};

using Panel = std::map<std::string, Series>;  // by dataflow, "bound" among them

void AddPoint(double x, const MemoryLevel& level, const IoProblem& problem, Panel* panel) {
  for (const IoRow& row : DataflowRows({"all"}, level, problem, false))
    (*panel)[row.dataflow].points.push_back({x, row.predicted});
  const double word = static_cast<double>(std::min(problem.options.packed_bytes, problem.options.out_bytes));
  const double bound = problem.heads() * word *
                       LowerBound(problem.shape, static_cast<double>(level.bytes) / word, BoundKind::kScoreOnce);
  (*panel)["bound"].points.push_back({x, bound});
}

std::string Data(const Panel& panel, const std::string& prefix) {
  std::string text;
  for (const auto& [name, series] : panel) {
    text += fmt::format("${}_{} << EOD\n", prefix, std::distance(panel.begin(), panel.find(name)));
    for (const auto& [x, y] : series.points) text += fmt::format("{:.9g} {:.9g}\n", x, y);
    text += "EOD\n";
  }
  return text;
}

std::string Plot(const Panel& panel, const std::string& prefix) {
  std::string text = "plot ";
  int index = 0, colour = 1;
  for (const auto& [name, series] : panel) {
    const std::string style =
        name == "bound" ? "lines lc rgb 'black' lw 3" : fmt::format("linespoints lw 2 pt {0} lc {0}", colour++);
    text += fmt::format("{}${}_{} using 1:2 with {} title '{}'", index == 0 ? "" : ", ", prefix, index, style,
                        name == "bound" ? "lower bound (scores once)" : name);
    ++index;
  }
  return text + "\n";
}

}  // namespace

void DrawTraffic(const std::string& path, const IoProblem& problem, const MemoryLevel& level) {
  Panel by_length, by_size;
  for (int64_t n = 512; n <= 131072; n *= 2) {
    IoProblem p = problem;
    p.shape.q_len = p.shape.kv_len = n;
    AddPoint(static_cast<double>(n), level, p, &by_length);
  }
  for (int64_t bytes = 1 << 10; bytes <= int64_t{64} << 20; bytes *= 2) {
    MemoryLevel l = level;
    l.bytes = bytes;
    l.sharers = 1;
    AddPoint(static_cast<double>(bytes) / 1024, l, problem, &by_size);
  }
  const Shape& s = problem.shape;
  std::string script = Data(by_length, "n") + Data(by_size, "s");
  script +=
      "set logscale x 2\nset logscale y\nset format x '%.0f'\nset format y '10^{%T}'\nset grid lc rgb '#dddddd'\n"
      "set ylabel 'traffic of all heads (bytes)'\nset key below maxcols 2 samplen 2\nset bmargin 9\nset rmargin 4\nset multiplot layout 1,2\n";
  script += fmt::format(
      "set title '{} of {} KiB, dims {}/{}, heads: {}'\nset xlabel 'queries = keys (rows)'\nset xrange [512:131072]\n",
      level.name, level.bytes / std::max<int64_t>(1, level.sharers) / 1024, s.qk_dim, s.v_dim, s.batch * s.q_heads);
  script += Plot(by_length, "n");
  script += fmt::format(
      "set title '{} queries, {} keys, dims {}/{}, heads: {}'\nset xlabel 'fast memory (KiB)'\nset xrange [1:65536]\n",
      s.q_len, s.kv_len, s.qk_dim, s.v_dim, s.batch * s.q_heads);
  DrawPicture(path, 1400, 700, script + Plot(by_size, "s") + "unset multiplot\n");
}

}  // namespace attenio::cli
