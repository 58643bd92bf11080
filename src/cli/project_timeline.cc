// attenio project --timeline, --picture, --model.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/picture.h"
#include "cli/project.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

std::vector<Event> Events(const ProjectCase& c, Range window) {
  Result<std::vector<Event>> events = HwTimeline(c.hw, c.shape, c.options, window);
  Require(events.status());
  if (events->empty()) Refuse("no events in cycles {} to {}", window.begin, window.end);
  return *events;
}

// Kinds of work in the order of the rows of the picture, from the bottom.
constexpr Work kRows[] = {Work::kStoreO,     Work::kLoadQ,  Work::kLoadV,   Work::kLoadK, Work::kStoreScores,
                          Work::kLoadScores, Work::kFinish, Work::kSoftmax, Work::kPV,    Work::kQK};

struct Panel {
  std::string title;
  Range window;
  std::vector<Event> events;
};

std::string Colour(Resource resource) {
  return resource == Resource::kMemory ? "#2ca02c" : resource == Resource::kPe ? "#1f77b4" : "#d62728";
}

// One panel: a bar for every event, rows for kinds of work, colours for resources.
std::string PanelScript(const Panel& panel, const std::vector<Work>& rows, int index) {
  std::string text;
  const std::pair<Resource, const char*> resources[] = {
      {Resource::kPe, "PE array"}, {Resource::kExp, "EXP unit"}, {Resource::kMemory, "HBM channels"}};
  for (const auto& [resource, name] : resources) {
    text += fmt::format("$p{}{} << EOD\n", index, Name(resource));
    for (const Event& e : panel.events) {
      if (e.resource != resource) continue;
      const auto row = std::find(rows.begin(), rows.end(), e.work) - rows.begin();
      // begin, end, row; a bar shorter than a pixel would vanish, so it is drawn with a border
      text += fmt::format("{} {} {}\n", std::max(e.begin, panel.window.begin), std::min(e.end, panel.window.end), row);
    }
    text += "0 0 -9\nEOD\n";  // an empty block would be an error
  }
  std::string ticks;
  for (size_t i = 0; i < rows.size(); ++i) ticks += fmt::format("{}'{}' {}", i == 0 ? "" : ", ", Name(rows[i]), i);
  text += fmt::format("set title '{}'\nset xrange [{}:{}]\nset yrange [-0.6:{}]\nset ytics ({})\nplot ", panel.title,
                      panel.window.begin, panel.window.end, static_cast<double>(rows.size()) - 0.4, ticks);
  for (const auto& [resource, name] : resources) {
    const std::string colour = Colour(resource);
    text += fmt::format(
        "$p{}{} using 1:3:1:2:($3-0.36):($3+0.36) with boxxyerror lc rgb '{}' fs solid 0.9 border lc rgb '{}' {}{}",
        index, Name(resource), colour, colour, index == 0 ? fmt::format("title '{}'", name) : std::string("notitle"),
        resource == Resource::kMemory ? "\n" : ", ");
  }
  return text;
}

// Cycles around the end of the first query tile, from its last iterations to the store of its O and what follows.
Range TileChange(const std::vector<Event>& events) {
  const auto first = [&events](Work work) {
    return std::find_if(events.begin(), events.end(), [work](const Event& e) { return e.work == work; });
  };
  const auto finish = first(Work::kFinish), store = first(Work::kStoreO);
  const int64_t margin = std::max<int64_t>(400, (store->end - finish->begin) / 6);
  return {std::max<int64_t>(0, finish->begin - margin), store->end + margin};
}

}  // namespace

void WriteTimeline(const std::string& path, const ProjectCase& c, Range window) {
  std::string text = "resource,work,first_query,queries,first_key,keys,begin_cycle,end_cycle\n";
  for (const Event& e : Events(c, window)) {
    text += fmt::format("{},{},{},{},{},{},{},{}\n", Name(e.resource), Name(e.work), e.queries.begin, e.queries.size(),
                        e.keys.begin, e.keys.size(), e.begin, e.end);
  }
  WriteText(path, text);
}

void DrawTimeline(const std::string& path, const ProjectCase& c) {
  // The first four steps after the loads that nothing can hide.
  const std::vector<Event> all = Events(c, {0, INT64_MAX});
  std::vector<int64_t> products;
  for (const Event& e : all) {
    if (e.work == Work::kQK && products.size() < 5) products.push_back(e.begin);
  }
  const int64_t from = products.front(), length = std::max<int64_t>(16, products.back() - from);
  std::vector<Panel> panels = {{"First iterations", {std::max<int64_t>(0, from - length / 20), from + length}, {}},
                               {"From one query tile to the next", TileChange(all), {}}};
  std::vector<Work> rows;
  for (Panel& panel : panels) panel.events = Events(c, panel.window);
  for (const Work work : kRows) {
    const bool used = std::any_of(panels.begin(), panels.end(), [&](const Panel& p) {
      return std::any_of(p.events.begin(), p.events.end(), [&](const Event& e) { return e.work == work; });
    });
    if (used) rows.push_back(work);
  }
  const Result<Schedule> schedule = HwSchedule(c.hw, c.shape, c.options);
  Require(schedule.status());
  std::string script = fmt::format(
      "set multiplot layout 2,1 margins 0.09,0.98,0.09,0.87 spacing 0.05,0.16 title '{} on {}: n = {}, d = {}, tile {} "
      "x {}' font ',14'\n"
      "set xlabel 'time (cycles)'\nset grid x lc rgb '#dddddd'\nset key outside top right horizontal samplen 1\nset "
      "tics out nomirror\nset format x '%.0f'\n",
      Name(c.options.dataflow), c.hw.name, c.shape.q_len, c.shape.qk_dim, schedule->levels[0].queries,
      schedule->levels[0].keys);
  for (size_t i = 0; i < panels.size(); ++i) script += PanelScript(panels[i], rows, static_cast<int>(i));
  DrawPicture(path, 1400, 900, script + "unset multiplot\n");
}

void PrintPrefill(const std::vector<ProjectCase>& cases, const Transformer& model, Output output) {
  const char* const columns[] = {
      "accelerator",         "dataflow", "model", "n", "causal", "time_s", "attention_s", "gemm_s", "attention_share",
      "attention_flop_share"};
  if (output == Output::kCsv) fmt::print("{}\n", fmt::join(columns, ","));
  if (output == Output::kText) {
    fmt::print(
        "{} prefill, batch 1: time to the first token\n{:<14} {:<9} {:>8} {:>7} {:>11} {:>12} {:>11} {:>9} {:>9}\n",
        model.name, "accelerator", "dataflow", "n", "causal", "time s", "attention s", "GEMM s", "share %", "flop %");
  }
  for (const ProjectCase& c : cases) {
    const bool causal = c.shape.right == 0;
    const Result<Prefill> p =
        ProjectPrefill(c.hw, model, c.shape.q_len, causal ? Masking::kCausal : Masking::kNone, c.options);
    Require(p.status());
    const ordered_json values[] = {
        c.hw.name,  Name(c.options.dataflow), model.name,      c.shape.q_len,      causal,
        p->seconds, p->attention_seconds,     p->gemm_seconds, p->attention_share, p->attention_flop_share};
    if (output == Output::kText) {
      fmt::print("{:<14} {:<9} {:>8} {:>7} {:>11.4f} {:>12.4f} {:>11.4f} {:>9.2f} {:>9.2f}\n", c.hw.name,
                 Name(c.options.dataflow), c.shape.q_len, causal ? "yes" : "no", p->seconds, p->attention_seconds,
                 p->gemm_seconds, 100 * p->attention_share, 100 * p->attention_flop_share);
      continue;
    }
    ordered_json line;
    std::vector<std::string> cells;
    for (size_t i = 0; i < std::size(columns); ++i) {
      line[columns[i]] = values[i];
      cells.push_back(values[i].dump());
    }
    fmt::print("{}\n", output == Output::kJson ? line.dump() : fmt::format("{}", fmt::join(cells, ",")));
  }
}

}  // namespace attenio::cli
