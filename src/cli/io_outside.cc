// attenio io --outside: the executor's misses as counted by a program that is not ours.
#include "cli/io_outside.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/bits.h"
#include "cli/command.h"
#include "cli/naive.h"
#include "kernels/kernels.h"

namespace attenio::cli {
namespace {

AttentionDesc DescOf(const Shape& s, DType dtype) {
  AttentionDesc d;
  d.q_len = s.q_len;
  d.kv_len = s.kv_len;
  d.qk_dim = s.qk_dim;
  d.v_dim = s.v_dim;
  d.dtype = dtype;
  d.causal = s.right == 0;
  d.offset = s.offset;
  d.scale = 1 / std::sqrt(static_cast<double>(s.qk_dim));
  return d;
}

std::vector<std::byte> RandomTensor(int64_t elements, DType dtype) {
  std::vector<std::byte> bytes(static_cast<size_t>(elements * ElementBytes(dtype)));
  std::minstd_rand engine(1);
  WithFloatType(dtype, [&](auto type) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    T* out = reinterpret_cast<T*>(bytes.data());
    for (int64_t i = 0; i < elements; ++i) FromFloat(static_cast<float>(engine() % 2048) * 0x1p-10f - 1, out + i);
  });
  return bytes;
}

// The run under valgrind: the same inputs for every case, so that the case "none" counts all that is not attention.
int RunChild(const OutsideOptions& outside, const Shape& s, DType dtype, const std::string& kernel) {
  const std::vector<std::byte> q = RandomTensor(s.q_len * s.qk_dim, dtype), k = RandomTensor(s.kv_len * s.qk_dim, dtype);
  const std::vector<std::byte> v = RandomTensor(s.kv_len * s.v_dim, dtype);
  std::vector<std::byte> out(static_cast<size_t>(s.q_len * s.v_dim * ElementBytes(dtype)));
  Operands operands;
  operands.q = q.data();
  operands.k = k.data();
  operands.v = v.data();
  operands.out = out.data();
  const AttentionDesc desc = DescOf(s, dtype);
  if (outside.child == "none") return kExitOk;
  if (outside.child == "naive") {
    NaiveAttention(desc, operands, {0, std::min(outside.naive_rows, s.q_len)}, SerialParallel());
    return kExitOk;
  }
  Options options;
  options.kernel = kernel;
  options.schedule = outside.child;
  options.workers = 1;
  const Result<Plan> plan = Plan::Create(desc, options);
  Require(plan.ok() ? Status() : plan.status());
  const auto workspace = std::make_unique_for_overwrite<std::byte[]>(plan->workspace_bytes());
  Require(plan->Run(operands, {workspace.get(), plan->workspace_bytes()}));
  return kExitOk;
}

std::string Geometry(const MemoryLevel& l) {
  return fmt::format("{},{},{}", l.bytes / std::max<int64_t>(1, l.sharers), l.ways, l.line_bytes);
}

// Line fills of the last-level cache of one run under cachegrind.
int64_t CountFills(const IoProblem& p, const OutsideOptions& outside, const std::string& dtype, const std::string& kernel,
                   const std::string& child) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / fmt::format("attenio-cachegrind-{}", getpid());
  const std::string log = file.string() + ".log";
  const Shape& s = p.shape;
  std::vector<std::string> arguments = {"valgrind", "--quiet", "--tool=cachegrind", "--cache-sim=yes", "--D1=" + Geometry(*p.machine.Find("L1")),
                                        "--LL=" + Geometry(*p.machine.Find("L2")), "--cachegrind-out-file=" + file.string(),
                                        std::filesystem::read_symlink("/proc/self/exe").string(), "io", "--outside-child", child,
                                        "--n", std::to_string(s.q_len), "--m", std::to_string(s.kv_len), "--d", std::to_string(s.qk_dim),
                                        "--dv", std::to_string(s.v_dim), "--dtype", dtype, "--kernel", kernel,
                                        "--outside-rows", std::to_string(outside.naive_rows)};
  if (s.right == 0) arguments.push_back("--causal");
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("HWLOC_COMPONENTS", "-x86", 1);  // that part of hwloc cannot run under valgrind and says so
    if (std::freopen(log.c_str(), "w", stderr) == nullptr) _exit(126);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) Refuse("--outside: cannot start valgrind");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) Refuse("--outside needs the program valgrind (package valgrind)");
  if (status != 0) Refuse("--outside: valgrind ended with status {}, see {}", status, log);
  std::filesystem::remove(log);
  std::ifstream in(file);
  std::string line, events;
  int64_t fills = -1;
  while (std::getline(in, line)) {
    if (line.rfind("events: ", 0) == 0) events = line.substr(8);
    if (line.rfind("summary: ", 0) != 0) continue;
    std::istringstream names(events), values(line.substr(9));
    fills = 0;
    int64_t value;
    for (std::string name; names >> name && values >> value;) {
      if (name == "DLmr" || name == "DLmw") fills += value;
    }
  }
  std::filesystem::remove(file);
  if (fills < 0) Refuse("--outside: cannot read what cachegrind wrote");
  return fills;
}

struct Case {
  std::string name, child;
  double predicted, simulated, counted;
};

double SimulatedFills(const Schedule& schedule, const Shape& shape, const IoProblem& p) {
  Machine m = p.machine;  // valgrind has two levels
  std::erase_if(m.levels, [](const MemoryLevel& l) { return l.name != "L1" && l.name != "L2"; });
  CacheOptions options;
  options.packed_bytes = p.options.packed_bytes;
  const auto lines = SimulateCaches(schedule, shape, m, options);
  Require(lines.ok() ? Status() : lines.status());
  return static_cast<double>(lines->back().total_fills() * lines->back().line_bytes);
}

// Row after row against all of K and V where they lie: nothing is packed.
Case NaiveCase(const IoProblem& p, int64_t rows) {
  IoProblem part = p;
  part.shape.q_len = std::min(rows, p.shape.q_len);
  part.options.packed_bytes = part.shape.element_bytes;
  const Schedule schedule = *Schedule::Parse("L2:row-buffered:1x64 pack:head");
  Shape nothing = part.shape;
  nothing.q_len = 0;
  const double scale = static_cast<double>(p.shape.q_len) / static_cast<double>(part.shape.q_len);
  const Traffic t = Predict(schedule, part.shape, 0, RowStats::kDropped);
  return {"naive", "naive", scale * Bytes(t, part.options),
          scale * (SimulatedFills(schedule, part.shape, part) - SimulatedFills(schedule, nothing, part)), scale};
}

Case ScheduleCase(const std::string& name, const Schedule& schedule, const IoProblem& p) {
  return {name, schedule.ToString(), PredictedCacheFills(schedule, p), SimulatedFills(schedule, p.shape, p), 1};
}

void Print(const Case& c, bool json) {
  if (json) {
    const nlohmann::ordered_json row{{"case", c.name}, {"schedule", c.child}, {"fill_bytes_predicted", c.predicted},
                                     {"fill_bytes_simulated", c.simulated}, {"fill_bytes_counted", c.counted},
                                     {"counted_over_predicted", c.counted / c.predicted},
                                     {"counted_over_simulated", c.counted / c.simulated}};
    fmt::print("{}\n", row.dump());
  } else {
    fmt::print("{:<20}{:>12.1f}{:>12.1f}{:>12.1f}{:>14.3f}{:>14.3f}  {}\n", c.name, c.predicted / 1e6, c.simulated / 1e6, c.counted / 1e6,
               c.counted / c.predicted, c.counted / c.simulated, c.child);
  }
}

}  // namespace

int RunOutside(const OutsideOptions& outside, IoProblem p, const std::string& dtype_name, const std::string& kernel_name, bool json) {
  const DType dtype = ParseDType(dtype_name, "--dtype");
  const std::string kernel = kernel_name.empty() ? "f32-avx2" : kernel_name;  // the widest that valgrind executes
  if (!outside.child.empty()) return RunChild(outside, p.shape, dtype, kernel);
  if (p.heads() != 1 || p.shape.q_heads != 1) Refuse("--outside runs one head: leave --batch, --heads and --kv-heads at 1");
  for (const char* name : {"L1", "L2"}) {
    const MemoryLevel* level = p.machine.Find(name);
    if (level == nullptr || level->ways < 1) Refuse("--outside: machine {} has no cache {}", p.machine.name, name);
  }
  std::string rejected;
  const KernelSet* set = SelectKernel(dtype, p.shape.qk_dim, p.shape.v_dim, kernel, &rejected);
  if (set == nullptr) Refuse("--outside: kernel {}: {}", kernel, rejected);
  p.options.quantum = set->quantum;
  p.options.packed_bytes = std::max<int64_t>(1, set->q_row_bytes(p.shape.qk_dim) / p.shape.qk_dim);
  p.options.threads = 1;
  const Result<Schedule> solved = Solve(p.shape, p.machine, p.options);
  Require(solved.ok() ? Status() : solved.status());
  const Result<Schedule> fixed = Complete(*Schedule::Parse("L2:query-resident:256x512"), p.shape, p.machine, p.options);
  Require(fixed.ok() ? Status() : fixed.status());
  Case cases[] = {NaiveCase(p, outside.naive_rows), ScheduleCase("flash-attention-2", *fixed, p), ScheduleCase("solved", *solved, p)};
  if (!json) {
    fmt::print("fills of a {} B, {}-way L2 in MB; cachegrind runs {} with the same tiles\n{:<20}{:>12}{:>12}{:>12}{:>14}{:>14}  schedule\n",
               p.machine.Find("L2")->bytes, p.machine.Find("L2")->ways, kernel, "case", "predicted", "simulated", "cachegrind", "cg/predicted",
               "cg/simulated");
  }
  Progress progress("cachegrind");
  const int64_t before = CountFills(p, outside, dtype_name, kernel, "none");
  bool ok = true;
  int done = 0;
  for (Case& c : cases) {
    progress.Update(++done, 3, c.name);
    const double line = static_cast<double>(p.machine.Find("L2")->line_bytes);
    c.counted *= line * static_cast<double>(CountFills(p, outside, dtype_name, kernel, c.child) - before);
    ok = ok && std::abs(c.counted / c.simulated - 1) <= 0.1;
    Print(c, json);
    std::fflush(stdout);
  }
  return ok ? kExitOk : kExitFailed;
}

}  // namespace attenio::cli
