// attenio project: the schedules of attention on a model of an accelerator.
#include "cli/project.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/accelerator_json.h"
#include "cli/command.h"
#include "cli/picture.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;
using List = std::vector<std::string>;

constexpr int64_t kHidden = 2048;  // heads = hidden / d unless given, as in the AttenIO paper

struct Flags {
  List accelerators = {"attenio"}, dataflows = {"attenio"}, n = {"8192"}, d = {"64"}, cache, macs, bandwidth;
  std::string tile = "own", schedule, model, timeline, window = "0,2000", picture, write_accelerator;
  int64_t heads = 0, kv_heads = 0, batch = 1;
  bool causal = false, energy = false, ablation = false, paper = false, every_event = false, json = false, csv = false;

  Output output() const { return json ? Output::kJson : csv ? Output::kCsv : Output::kText; }
};

TileRule ParseTile(const std::string& text) {
  for (const TileRule rule :
       {TileRule::kOwn, TileRule::kPaper, TileRule::kBalanced, TileRule::kFlash2, TileRule::kQuarter}) {
    if (text == Name(rule)) return rule;
  }
  Refuse("--tile {}: expected own, paper, balanced, flash2 or quarter", text);
}

std::vector<HwDataflow> ParseDataflows(const List& names) {
  if (names == List{"all"}) {
    return {HwDataflow::kAttenio, HwDataflow::kFlash2, HwDataflow::kFlat, HwDataflow::kStandard, HwDataflow::kFusemax};
  }
  std::vector<HwDataflow> dataflows;
  for (const std::string& name : names) {
    const Result<HwDataflow> dataflow = ParseHwDataflow(name);
    if (!dataflow.ok()) Refuse("--dataflow: {}", dataflow.status().message());
    dataflows.push_back(*dataflow);
  }
  return dataflows;
}

double ParseReal(const std::string& text, const char* option) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value > 0) || std::isinf(value)) Refuse("{} {}: expected a number above 0", option, text);
  return value;
}

int64_t ParsePositive(const std::string& text, const char* option) {
  const int64_t value = ParseCount(text, option);
  if (value < 1) Refuse("{} {}: expected a number above 0", option, text);
  return value;
}

// Area and power follow what is changed.
void Scale(ComponentRating* rating, double factor) {
  rating->area_mm2 *= factor;
  rating->power_mw *= factor;
}

void SetMacs(int64_t macs, Accelerator* hw) {
  if (macs % hw->macs_per_line != 0) {
    Refuse("--macs {}: {} has lines of {} MACs, the number must be a multiple", macs, hw->name, hw->macs_per_line);
  }
  Scale(&hw->pe, static_cast<double>(macs) / static_cast<double>(hw->macs()));
  hw->mac_lines = macs / hw->macs_per_line;
}

void SetCache(int64_t bytes, Accelerator* hw) {
  Scale(&hw->cache, static_cast<double>(bytes) / static_cast<double>(hw->cache_bytes));
  hw->cache_bytes = bytes;
}

// Every accelerator with every cache, number of MACs and bandwidth of the lists.
std::vector<Accelerator> Accelerators(const Flags& flags) {
  std::vector<Accelerator> all;
  for (const std::string& name : flags.accelerators) all.push_back(LoadAccelerator(name));
  const auto sweep = [&all](const List& values, auto&& set) {
    if (values.empty()) return;
    std::vector<Accelerator> next;
    for (const Accelerator& hw : all) {
      for (const std::string& value : values) set(value, &next.emplace_back(hw));
    }
    all = std::move(next);
  };
  sweep(flags.cache, [](const std::string& v, Accelerator* hw) { SetCache(ParsePositive(v, "--cache"), hw); });
  sweep(flags.macs, [](const std::string& v, Accelerator* hw) { SetMacs(ParsePositive(v, "--macs"), hw); });
  sweep(flags.bandwidth, [](const std::string& v, Accelerator* hw) {
    hw->channel_bytes_per_second = ParseReal(v, "--bandwidth") * 1e9 / static_cast<double>(hw->memory_channels);
  });
  return all;
}

Shape MakeShape(const Flags& flags, const Accelerator& hw, int64_t n, int64_t d) {
  Shape s;
  s.batch = flags.batch;
  s.q_heads = flags.heads > 0 ? flags.heads : std::max<int64_t>(1, kHidden / d);
  s.kv_heads = flags.kv_heads > 0 ? flags.kv_heads : s.q_heads;
  s.q_len = s.kv_len = n;
  s.qk_dim = s.v_dim = d;
  s.element_bytes = hw.element_bytes;
  if (flags.causal) s.right = 0;
  return s;
}

// The run of the command line, and each idea on and off.
std::vector<ProjectCase> Variants(const ProjectCase& base, bool ablation) {
  if (!ablation) return {base};
  std::vector<ProjectCase> all;
  const auto add = [&](const char* variant, HwDataflow dataflow, TileRule tile, std::optional<HwOverlap> overlap) {
    ProjectCase c = base;
    c.variant = variant;
    c.options.dataflow = dataflow;
    c.options.tile = tile;
    c.options.overlap = overlap;
    all.push_back(c);
  };
  constexpr HwDataflow kOurs = HwDataflow::kAttenio, kTheirs = HwDataflow::kFlash2;
  add("attenio", kOurs, TileRule::kPaper, {});
  add("without V_j during QK", kOurs, TileRule::kPaper, HwOverlap{false, true, true, true});
  add("without K_j+1 during PV", kOurs, TileRule::kPaper, HwOverlap{true, false, true, true});
  add("without Q_i+1 during the end", kOurs, TileRule::kPaper, HwOverlap{true, true, false, true});
  add("without any overlap", kOurs, TileRule::kPaper, HwOverlap{false, false, false, true});
  add("without pipelined softmax", kOurs, TileRule::kPaper, HwOverlap{true, true, true, false});
  add("tile only", kOurs, TileRule::kPaper, HwOverlap{false, false, false, false});
  add("balanced tile", kOurs, TileRule::kBalanced, {});
  add("flash2's tile", kOurs, TileRule::kFlash2, {});
  add("flash2", kTheirs, TileRule::kFlash2, {});
  add("flash2 + overlap", kTheirs, TileRule::kFlash2, HwOverlap{true, true, true, false});
  add("flash2 + softmax", kTheirs, TileRule::kFlash2, HwOverlap{false, false, false, true});
  add("flash2, Br = M/4d", kTheirs, TileRule::kQuarter, {});
  add("flash2, attenio's tile", kTheirs, TileRule::kPaper, {});
  return all;
}

std::vector<ProjectCase> MakeCases(const Flags& flags) {
  std::vector<ProjectCase> cases;
  for (const Accelerator& hw : Accelerators(flags)) {
    for (const std::string& d : flags.d) {
      for (const std::string& n : flags.n) {
        for (const HwDataflow dataflow : ParseDataflows(flags.dataflows)) {
          ProjectCase c{hw, MakeShape(flags, hw, ParsePositive(n, "--n"), ParsePositive(d, "--d")), {}, ""};
          c.options.dataflow = dataflow;
          c.options.tile = ParseTile(flags.tile);
          c.options.every_event = flags.every_event;
          if (!flags.schedule.empty()) {
            const Result<Schedule> schedule = Schedule::Parse(flags.schedule);
            if (!schedule.ok()) Refuse("--schedule: {}", schedule.status().message());
            c.options.schedule = *schedule;
          }
          for (const ProjectCase& variant : Variants(c, flags.ablation)) cases.push_back(variant);
        }
      }
    }
  }
  return cases;
}

ordered_json ByComponentJson(const ByComponent& c) {
  return {{"pe", c.pe}, {"exp", c.exp}, {"kv_buffer", c.kv_buffer}, {"cache", c.cache}, {"memory", c.memory}};
}

ordered_json Line(const ProjectCase& c, const Projection& p) {
  // No energy where the components have no rating.
  const bool rated = c.hw.pe.power_mw > 0;
  const ordered_json unknown = nullptr;
  return {{"accelerator", c.hw.name},
          {"dataflow", Name(c.options.dataflow)},
          {"variant", c.variant.empty() ? unknown : ordered_json(c.variant)},
          {"schedule", p.schedule.ToString()},
          {"n", c.shape.q_len},
          {"d", c.shape.qk_dim},
          {"heads", c.shape.q_heads},
          {"kv_heads", c.shape.kv_heads},
          {"batch", c.shape.batch},
          {"causal", c.shape.right == 0},
          {"cache_bytes", c.hw.cache_bytes},
          {"macs", c.hw.macs()},
          {"bandwidth", c.hw.bytes_per_cycle() * c.hw.clock_hz},
          {"cycles", p.cycles},
          {"time_ms", p.seconds * 1e3},
          {"bytes", p.bytes.total()},
          {"bytes_q", p.bytes.q},
          {"bytes_k", p.bytes.k},
          {"bytes_v", p.bytes.v},
          {"bytes_out", p.bytes.out},
          {"bytes_scores", p.bytes.scores},
          {"pe_utilisation", p.pe_utilisation},
          {"mac_utilisation", p.mac_utilisation},
          {"exp_utilisation", p.exp_utilisation},
          {"exp_occupancy", p.exp_occupancy},
          {"memory_utilisation", p.memory_utilisation},
          {"stall_share", p.stall_share},
          {"energy_mj", rated ? ordered_json(p.energy_mj.total()) : unknown},
          {"energy_mj_by_component", rated ? ByComponentJson(p.energy_mj) : unknown},
          {"power_mw_by_component", rated ? ByComponentJson(p.power_mw) : unknown},
          {"area_mm2",
           rated ? ordered_json(c.hw.pe.area_mm2 + c.hw.exp.area_mm2 + c.hw.kv_buffer.area_mm2 + c.hw.cache.area_mm2)
                 : unknown},
          {"steps", p.steps}};
}

// Nested objects become columns name_part.
void PrintCsv(const ordered_json& line, bool header) {
  std::vector<std::string> names, values;
  const ordered_json flat = line.flatten();
  for (const auto& [path, value] : flat.items()) {
    std::string name = path.substr(1);
    std::replace(name.begin(), name.end(), '/', '_');
    names.push_back(name);
    values.push_back(value.is_null() ? "" : value.dump());
  }
  if (header) fmt::print("{}\n", fmt::join(names, ","));
  fmt::print("{}\n", fmt::join(values, ","));
}

void PrintText(const ProjectCase& c, const Projection& p, const Projection& first, bool energy) {
  fmt::print("{:<14} {:<8} {:>8} {:>4} {:>5} {:>8.0f} {:>15} {:>12.4f} {:>11.2f} {:>6.1f} {:>6.1f} {:>6.1f} {:>7.2f}",
             c.hw.name, Name(c.options.dataflow), c.shape.q_len, c.shape.qk_dim, c.shape.q_heads,
             static_cast<double>(c.hw.cache_bytes) / 1024, p.cycles, p.seconds * 1e3, p.bytes.total() * 1e-6,
             100 * p.pe_utilisation, 100 * p.exp_utilisation, 100 * p.memory_utilisation, 100 * p.stall_share);
  if (energy) {
    const ByComponent& e = p.energy_mj;
    fmt::print(" {:>10.3f} {:>9.3f} {:>8.3f} {:>8.3f} {:>8.3f} {:>9.1f}", e.total(), e.pe, e.exp, e.cache, e.memory,
               p.power_mw.total());
  }
  if (!c.variant.empty()) {
    fmt::print(" {:>6.3f} {:>7.2f}  {}", static_cast<double>(p.cycles) / static_cast<double>(first.cycles),
               p.bytes.total() / first.bytes.total(), c.variant);
  }
  fmt::print("\n");
}

void PrintHeader(const Flags& flags) {
  fmt::print("{:<14} {:<8} {:>8} {:>4} {:>5} {:>8} {:>15} {:>12} {:>11} {:>6} {:>6} {:>6} {:>7}", "accelerator",
             "dataflow", "n", "d", "heads", "cache KB", "cycles", "time ms", "off-chip MB", "PE %", "EXP %", "mem %",
             "stall %");
  if (flags.energy)
    fmt::print(" {:>10} {:>9} {:>8} {:>8} {:>8} {:>9}", "energy mJ", "PE", "EXP", "cache", "memory", "power mW");
  if (flags.ablation) fmt::print(" {:>6} {:>7}  {}", "time x", "I/O x", "variant");
  fmt::print("\n");
}

void PrintSweep(const Flags& flags, const std::vector<ProjectCase>& cases) {
  Projection first;
  bool header = true;
  Progress progress("project");
  for (size_t i = 0; i < cases.size(); ++i) {
    const ProjectCase& c = cases[i];
    const Result<Projection> p = Project(c.hw, c.shape, c.options);
    Require(p.status());
    if (i == 0 && flags.output() == Output::kText) PrintHeader(flags);  // only now: a refusal leaves stdout empty
    if (i == 0 || c.variant == "attenio") first = *p;  // of every group of an ablation
    switch (flags.output()) {
      case Output::kText:
        PrintText(c, *p, first, flags.energy);
        break;
      case Output::kJson:
        fmt::print("{}\n", Line(c, *p).dump());
        break;
      case Output::kCsv:
        PrintCsv(Line(c, *p), header);
        break;
    }
    header = false;
    progress.Update(static_cast<int64_t>(i) + 1, static_cast<int64_t>(cases.size()));
  }
}

Range ParseWindow(const std::string& text) {
  const size_t comma = text.find(',');
  if (comma == std::string::npos) Refuse("--window {}: expected FROM,TO in cycles", text);
  const Range window{ParseCount(text.substr(0, comma), "--window"), ParseCount(text.substr(comma + 1), "--window")};
  if (window.empty()) Refuse("--window {}: empty", text);
  return window;
}

Transformer ParseModel(const std::string& name) {
  for (const Transformer& model : {Gpt3(), Llama3_8B()}) {
    if (name == model.name) return model;
  }
  Refuse("--model {}: expected gpt3 or llama3-8b", name);
}

int RunProject(const Flags& flags) {
  if (flags.json && flags.csv) Refuse("--json and --csv exclude each other");
  if (flags.paper) {
    PrintPaper(flags.output());
    if (!flags.picture.empty()) DrawPaper(flags.picture);
    return kExitOk;
  }
  const std::vector<ProjectCase> cases = MakeCases(flags);
  if (!flags.write_accelerator.empty()) WriteText(flags.write_accelerator, ToJson(cases[0].hw));
  if (!flags.timeline.empty()) WriteTimeline(flags.timeline, cases[0], ParseWindow(flags.window));
  if (!flags.picture.empty()) DrawTimeline(flags.picture, cases[0]);
  if (!flags.model.empty()) {
    PrintPrefill(cases, ParseModel(flags.model), flags.output());
  } else {
    PrintSweep(flags, cases);
  }
  return kExitOk;
}

}  // namespace

int64_t ParseCount(const std::string& text, const char* option) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  const std::string unit = end;
  const int shift = unit == "K" || unit == "k" ? 10 : unit == "M" || unit == "m" ? 20 : 0;
  const bool number = end != text.c_str() && (unit.empty() || shift > 0) && errno == 0;
  if (!number || std::abs(value) > (INT64_MAX >> shift))
    Refuse("{} {}: expected a whole number, also as 64K or 1M", option, text);
  return value * (int64_t{1} << shift);
}

void AddProject(CLI::App& app, Action* action) {
  CLI::App* sub =
      app.add_subcommand("project", "Attention on a model of an accelerator: cycles, bytes, utilisation, energy");
  const auto flags = std::make_shared<Flags>();
  Flags& f = *flags;
  const auto list = [sub](const char* name, List& values, const char* help) {
    sub->add_option(name, values, help)->delimiter(',');
  };
  list("--accelerator", f.accelerators, "attenio, fusemax-cloud, attenio:PEAK (flop/s) or a JSON file");
  list("--dataflow", f.dataflows, "attenio, flash2, flat, standard, fusemax or all");
  list("--n", f.n, "Lengths, e.g. 8K,64K,1M");
  list("--d", f.d, "Head dimensions");
  sub->add_option("--heads", f.heads, "Query heads (default: 2048 / d)")->check(CLI::Range(int64_t{1}, INT64_MAX));
  sub->add_option("--kv-heads", f.kv_heads, "KV heads (default: as many)")->check(CLI::Range(int64_t{1}, INT64_MAX));
  sub->add_option("--batch", f.batch, "Batch entries")->check(CLI::Range(int64_t{1}, INT64_MAX));
  list("--cache", f.cache, "Cache sizes in bytes, e.g. 64K,512K");
  list("--macs", f.macs, "Numbers of MACs");
  list("--bandwidth", f.bandwidth, "Off-chip bandwidths in GB/s");
  sub->add_option("--tile", f.tile, "Tile rule of attenio and flash2: own, paper, balanced, flash2, quarter");
  sub->add_option("--schedule", f.schedule, "Tile instead of a rule, e.g. cache:query-resident:1024x1");
  sub->add_flag("--causal", f.causal, "Blocks above the diagonal are skipped");
  sub->add_flag("--energy", f.energy, "Energy and power by component");
  sub->add_flag("--ablation", f.ablation, "Each overlap, the softmax pipeline and the tile on and off");
  sub->add_flag("--paper", f.paper,
                "The AttenIO paper's figures, published and modelled; predictions; where the gain comes from");
  sub->add_option("--model", f.model, "Prefill of a whole transformer: gpt3 or llama3-8b");
  sub->add_flag("--every-event", f.every_event, "Simulate each event instead of folding what repeats");
  sub->add_option("--timeline", f.timeline, "Write the events of the first run to this CSV file");
  sub->add_option("--window", f.window, "Cycles of --timeline, FROM,TO");
  sub->add_option("--picture", f.picture, "Draw the first run's timeline (with --paper: its figures) to this PNG file");
  sub->add_option("--write-accelerator", f.write_accelerator, "Write the first accelerator to this JSON file");
  sub->add_flag("--json", f.json, "One JSON object a line");
  sub->add_flag("--csv", f.csv, "A table");
  sub->callback([flags, action] { *action = [flags] { return RunProject(*flags); }; });
}

}  // namespace attenio::cli
