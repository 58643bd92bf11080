// attenio io: bound, schedule and traffic of a problem on a machine.
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/io_outside.h"
#include "cli/io_paper.h"
#include "cli/io_picture.h"
#include "cli/io_poly.h"
#include "cli/io_report.h"
#include "cli/machine_file.h"
#include "kernels/kernels.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

struct IoOptions {
  int64_t n = 4096, m = 0, d = 128, dv = 0, batch = 1, heads = 1, kv_heads = 0, offset = 0;
  std::string dtype = "f32", machine = "this", kernel, schedule, picture, method = "exact";
  int64_t cache = 0;
  int threads = 1;
  std::vector<std::string> dataflows;
  std::vector<int> degrees{1, 2, 3};
  bool causal = false, json = false, paper = false, outside = false, no_simulation = false;
  OutsideOptions out;
};

// The kernel that would run, for its quantum and packed element.
void UseKernel(const IoOptions& o, DType dtype, IoProblem* p) {
  RequireKnownKernel(o.kernel);
  std::string rejected;
  const KernelSet* kernel = SelectKernel(dtype, p->shape.qk_dim, p->shape.v_dim, o.kernel, &rejected);
  if (kernel == nullptr) Refuse("--kernel {}: {}", o.kernel, rejected);
  p->options.quantum = kernel->quantum;
  p->options.packed_bytes = std::max<int64_t>(1, kernel->q_row_bytes(p->shape.qk_dim) / p->shape.qk_dim);
}

IoProblem MakeProblem(const IoOptions& o) {
  IoProblem p;
  Shape& s = p.shape;
  const DType dtype = ParseDType(o.dtype, "--dtype");
  s.batch = o.batch;
  s.q_heads = o.heads;
  s.kv_heads = o.kv_heads > 0 ? o.kv_heads : o.heads;
  if (s.q_heads % s.kv_heads != 0) Refuse("--heads {} is not a multiple of --kv-heads {}", s.q_heads, s.kv_heads);
  s.q_len = o.n;
  s.kv_len = o.m > 0 ? o.m : o.n;
  s.qk_dim = o.d;
  s.v_dim = o.dv > 0 ? o.dv : o.d;
  s.element_bytes = ElementBytes(dtype);
  s.offset = o.offset;
  if (o.causal) s.right = 0;
  p.machine = LoadMachine(o.machine);
  p.options.threads = o.threads;
  if (o.machine == "attenio") {  // an accelerator: single elements, accumulators of the same type
    p.options.packed_bytes = p.options.out_bytes = s.element_bytes = 2;
  } else {
    UseKernel(o, dtype, &p);
  }
  if (o.cache > 0) {
    MemoryLevel* outer = nullptr;
    for (MemoryLevel& l : p.machine.levels) {
      if (l.name == "L2" || l.name == "cache") outer = &l;
    }
    if (outer == nullptr) Refuse("--cache: machine {} has no level L2 or cache", o.machine);
    outer->bytes = o.cache;
  }
  return p;
}

// The level that the outermost tile is for, as the solver chooses it.
const MemoryLevel& OuterLevel(const IoProblem& p) {
  const MemoryLevel* outer = p.machine.Find("L2");
  for (const MemoryLevel& l : p.machine.levels) {
    if (p.machine.Find("L2") == nullptr && l.bytes > 0) outer = &l;
  }
  if (outer == nullptr) Refuse("machine {} has no level of finite size", p.machine.name);
  return *outer;
}

void PrintRow(const IoRow& row, bool json) {
  if (json) {
    ordered_json j{{"level", row.level},           {"dataflow", row.dataflow},         {"schedule", row.schedule},
                   {"fast_bytes", row.fast_bytes}, {"bytes_predicted", row.predicted}, {"bytes_simulated", nullptr},
                   {"bytes_bound", row.bound},     {"bound_kind", row.bound_kind},     {"solve_us", row.solve_us}};
    if (row.simulated) j["bytes_simulated"] = *row.simulated;
    fmt::print("{}\n", j.dump());
    return;
  }
  fmt::print("{:<8}{:<19}{:>12.4g}{:>12}{:>12.4g}{:>8.2f}  {:<17}{}\n", row.level, row.dataflow, row.predicted / 1e6,
             row.simulated ? fmt::format("{:.4g}", *row.simulated / 1e6) : "-", row.bound / 1e6,
             row.bound > 0 ? row.predicted / row.bound : 0.0, row.bound_kind, row.schedule);
}

void PrintHead(const char* title) {
  fmt::print("{}\n{:<8}{:<19}{:>12}{:>12}{:>12}{:>8}  {:<17}{}\n", title, "level", "dataflow", "MB predict",
             "MB simul.", "MB bound", "x bound", "bound holds for", "schedule");
}

bool Simulates(const IoOptions& o, const IoProblem& p) {
  return !o.no_simulation && static_cast<double>(p.shape.AllowedPairs()) <= kMostSimulatedPairs;
}

// Exact attention at its best tile, then polynomial attention, all at one level.
int RunPoly(const IoOptions& o, const IoProblem& p, const MemoryLevel& outer) {
  if (!o.json)
    PrintHead(fmt::format("exact and polynomial attention at {} alone, managed explicitly", outer.name).c_str());
  for (const IoRow& row : DataflowRows({"query-resident"}, outer, p, Simulates(o, p))) PrintRow(row, o.json);
  for (const IoRow& row : PolyRows(o.degrees, outer, p, !o.no_simulation)) PrintRow(row, o.json);
  if (!o.json) PrintPolyBreakEven(o.degrees, p);
  return kExitOk;
}

int RunIo(const IoOptions& o) {
  if (o.paper) return PrintPaper(o.json);
  IoProblem p = MakeProblem(o);
  if (o.outside || !o.out.child.empty()) return RunOutside(o.out, p, o.dtype, o.kernel, o.json);
  const MemoryLevel& outer = OuterLevel(p);
  if (!o.picture.empty()) {
    DrawTraffic(o.picture, p, outer);
    return kExitOk;
  }
  if (o.method == "poly") return RunPoly(o, p, outer);
  const bool simulate = Simulates(o, p);
  const double start = Seconds();
  Result<Schedule> schedule = Solve(p.shape, p.machine, p.options);
  const double us = 1e6 * (Seconds() - start);
  if (!o.schedule.empty()) {
    schedule = Schedule::Parse(o.schedule);
    if (schedule.ok()) schedule = Complete(*schedule, p.shape, p.machine, p.options);
  }
  Require(schedule.ok() ? Status() : schedule.status());
  if (!o.json)
    PrintHead(o.schedule.empty() ? "solved schedule, level by level (caches: line-granular LRU simulation)"
                                 : "given schedule");
  for (const IoRow& row : ScheduleRows(*schedule, p, o.schedule.empty() ? us : 0, simulate ? 1 : 0))
    PrintRow(row, o.json);
  if (!o.json && !simulate) fmt::print("(not simulated: more than {:.0e} pairs a head)\n", kMostSimulatedPairs);
  const std::vector<std::string> names = o.dataflows.empty() ? std::vector<std::string>{"all"} : o.dataflows;
  if (!o.json)
    PrintHead(fmt::format("\nevery dataflow at {} alone, managed explicitly, at its best tile", outer.name).c_str());
  for (const IoRow& row : DataflowRows(names, outer, p, simulate)) PrintRow(row, o.json);
  return kExitOk;
}

}  // namespace

void AddIo(CLI::App& app, Action* action) {
  CLI::App* sub = app.add_subcommand("io", "Bound, schedule, predicted and simulated traffic per level");
  const auto o = std::make_shared<IoOptions>();
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 40);
  sub->add_option("--n", o->n, "Queries")->check(positive)->capture_default_str();
  sub->add_option("--m", o->m, "Keys (default: as many as queries)")->check(positive);
  sub->add_option("--d", o->d, "Dims of Q and K")->check(positive)->capture_default_str();
  sub->add_option("--dv", o->dv, "Dims of V (default: --d)")->check(positive);
  sub->add_option("--batch", o->batch, "Batch entries")->check(positive)->capture_default_str();
  sub->add_option("--heads", o->heads, "Query heads")->check(positive)->capture_default_str();
  sub->add_option("--kv-heads", o->kv_heads, "K/V heads (default: --heads)")->check(positive);
  sub->add_option("--dtype", o->dtype, "f32, bf16 or f16")->capture_default_str();
  sub->add_flag("--causal", o->causal, "Key j for query i iff j <= i + offset");
  sub->add_option("--offset", o->offset, "Position of query 0")->capture_default_str();
  sub->add_option("--threads", o->threads, "Workers that share the call")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  sub->add_option("--kernel", o->kernel, "Kernel whose quantum counts (default: the one that would run)");
  sub->add_option("--schedule", o->schedule, "Instead of solving, for example 256x512");
  sub->add_option("--machine", o->machine, "this, attenio (the paper's) or a file of `attenio calibrate`")
      ->capture_default_str();
  sub->add_option("--cache", o->cache, "Bytes of the machine's L2 instead of its own")->check(positive);
  sub->add_option("--dataflow", o->dataflows, "Those to list")
      ->delimiter(',')
      ->check(CLI::IsMember({"all", "query-resident", "key-resident", "score-resident", "row-buffered", "unfused",
                             "flash-attention-1", "flash-attention-2"}));
  sub->add_option("--method", o->method, "exact, or poly: polynomial attention in every regime beside it")
      ->check(CLI::IsMember({"exact", "poly"}))
      ->capture_default_str();
  sub->add_option("--degree", o->degrees, "Degrees of --method poly")
      ->delimiter(',')
      ->check(CLI::Range(0, 16))
      ->capture_default_str();
  sub->add_flag("--no-simulation", o->no_simulation, "Predict only");
  sub->add_flag("--paper", o->paper, "The published I/O ratios beside those of this library");
  sub->add_option("--picture", o->picture,
                  "Draw traffic over length and over cache size into this .png or .svg (needs gnuplot)");
  sub->add_flag("--outside", o->outside, "Count the executor's cache misses with valgrind's cachegrind and compare");
  sub->add_option("--outside-child", o->out.child, "Internal: run one case of --outside")->group("");
  sub->add_option("--outside-rows", o->out.naive_rows, "Rows that --outside runs of the naive version")
      ->check(positive)
      ->capture_default_str();
  sub->add_flag("--json", o->json, "JSON lines");
  sub->callback([=] { *action = [=] { return RunIo(*o); }; });
}

}  // namespace attenio::cli
