// attenio calibrate: what this computer's levels and units deliver, as a machine file.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>

#include "base/math.h"
#include "cli/best_rate.h"
#include "cli/command.h"
#include "cli/kernel_rates.h"
#include "cli/machine_file.h"
#include "kernels/peak.h"
#include "kernels/rates.h"

namespace attenio::cli {
namespace {

std::atomic<uint64_t> sink;  // keeps the loops

// Memory that begins at a line.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : memory_(static_cast<size_t>(bytes + 64), std::byte{1}) {
    data_ = memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
  }
  std::byte* data() { return data_; }

 private:
  std::vector<std::byte> memory_;
  std::byte* data_;
};

// Bytes that lie in level `index` and not inside it: half of the level but no more than four times the level inside it (a shared
// cache may be less than it says in a virtual machine); for memory four times the largest cache.
int64_t Footprint(const Machine& m, size_t index) {
  int64_t bytes = m.levels[index].bytes / 2;
  if (index > 1 && m.levels[index - 1].bytes > 0) bytes = std::min(bytes, 4 * m.levels[index - 1].bytes);
  if (m.levels[index].bytes > 0) return RoundUp(std::max<int64_t>(bytes, 1024), 1024);
  int64_t largest = 16 << 20;
  for (const MemoryLevel& l : m.levels) largest = std::max(largest, l.bytes);
  return std::min<int64_t>(4 * largest,
                           int64_t{1} << 28);  // the latency's random cycle takes a second to make for 256 MiB
}

double ReadAlone(const PeakLoops& loops, int64_t bytes) {
  Buffer buffer(bytes);
  return BestRate(static_cast<double>(bytes),
                  [&] { sink.fetch_add(loops.read(buffer.data(), bytes), std::memory_order_relaxed); });
}

// `threads` threads at once; each reads its own part when the level is one for all of them, else its own copy.
double ReadTogether(const PeakLoops& loops, int64_t bytes, int threads, bool one_instance) {
  const int64_t part = one_instance ? RoundUp(bytes / threads, 1024) : bytes;
  Buffer buffer(part * threads);
  ThreadPool pool(threads);
  const Parallel parallel = pool.parallel();
  struct Call {
    const PeakLoops& loops;
    std::byte* data;
    int64_t part, calls;
  } call{loops, buffer.data(), part, 1};
  const auto run = [&] {
    const double start = Seconds();
    parallel.run(
        parallel.context, threads,
        [](void* c, int64_t task, int) {
          const Call& here = *static_cast<Call*>(c);
          uint64_t x = 0;
          for (int64_t i = 0; i < here.calls; ++i) x += here.loops.read(here.data + task * here.part, here.part);
          sink.fetch_add(x, std::memory_order_relaxed);
        },
        &call);
    return std::max(Seconds() - start, 1e-9);
  };
  run();
  call.calls = std::clamp<int64_t>(static_cast<int64_t>(rate_effort.slice / run()), 1, 1 << 22);
  double best = 0;
  for (int r = 0; r < rate_effort.repeats; ++r)
    best = std::max(best, static_cast<double>(part * threads * call.calls) / run());
  return best;
}

// Seconds per load when each load's address comes from the one before it, in random order over all lines.
double Latency(int64_t bytes, int64_t line) {
  const int64_t lines = std::max<int64_t>(2, bytes / line);
  std::vector<int64_t> order(static_cast<size_t>(lines));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 engine(1);
  std::shuffle(order.begin() + 1, order.end(), engine);
  Buffer buffer(lines * line);
  const auto slot = [&](int64_t i) -> int64_t& { return *reinterpret_cast<int64_t*>(buffer.data() + i * line); };
  for (size_t i = 0; i < order.size(); ++i) slot(order[i]) = order[(i + 1) % order.size()];
  constexpr int64_t kLoads = 20000;
  int64_t at = 0;
  const double rate = BestRate(kLoads, [&] {
    for (int64_t i = 0; i < kLoads; ++i) at = slot(at);
    sink.fetch_add(static_cast<uint64_t>(at), std::memory_order_relaxed);
  });
  return 1 / rate;
}

double Clock() {
  constexpr int64_t kSteps = 800000;
  if (DependentAdds(8) == 0) return 0;
  return BestRate(kSteps,
                  [] { sink.fetch_add(static_cast<uint64_t>(DependentAdds(kSteps)), std::memory_order_relaxed); });
}

double ProductRate(const ProductLoop& loop) {
  if (loop.run == nullptr) return 0;
  constexpr int64_t kIterations = 10000;
  return BestRate(loop.flops_per_iteration * static_cast<double>(kIterations), [&] { loop.run(kIterations); });
}

double ExpRate() {
  constexpr int64_t kCount = 2048;  // 8 KiB: in any L1
  Buffer buffer(kCount * 4);
  auto* values = reinterpret_cast<float*>(buffer.data());
  for (int64_t i = 0; i < kCount; ++i) values[i] = -static_cast<float>(i % 97) / 8;
  if (!(SumOfExp2(values, kCount) > 0)) return 0;
  return BestRate(kCount,
                  [&] { sink.fetch_add(static_cast<uint64_t>(SumOfExp2(values, kCount)), std::memory_order_relaxed); });
}

// What a last level that claims `bytes` gives this machine: in a virtual machine hardware caches may be shared with others, or
// be less than reported. The largest power of two that is still read faster than the geometric mean of cache and memory.
int64_t Capacity(const PeakLoops& loops, const MemoryLevel& level, int64_t footprint, double memory_rate) {
  const double border = std::sqrt(level.bytes_per_second * memory_rate);
  int64_t capacity = footprint;
  while (2 * capacity <= level.bytes && ReadAlone(loops, 2 * capacity) > border) capacity *= 2;
  return 2 * capacity > level.bytes ? level.bytes : capacity;
}

Machine Calibrate() {
  Machine m = ThisMachine();
  const std::vector<PeakLoops>& all = AllPeakLoops();
  if (all.empty()) Refuse("calibrate: this build has no vector code for this processor");
  const PeakLoops& loops = all.front();
  Progress progress("calibrate");
  const int64_t total = static_cast<int64_t>(m.levels.size() + AllKernels().size()) + 1;
  progress.Update(1, total, "units");
  m.clock_hz = Clock();
  constexpr int64_t kIterations = 20000;
  m.fma_flops = BestRate(loops.flops_per_iteration * static_cast<double>(kIterations), [&] {
    sink.fetch_add(static_cast<uint64_t>(loops.fma(kIterations)), std::memory_order_relaxed);
  });
  m.dot_bf16_flops = ProductRate(DotBf16Loop());
  m.tensor_flops = ProductRate(TensorBf16Loop());
  m.exp_per_second = ExpRate();
  for (size_t i = 0; i < m.levels.size(); ++i) {
    MemoryLevel& l = m.levels[i];
    progress.Update(static_cast<int64_t>(i) + 2, total, l.name);
    if (l.name == "reg") continue;
    const int64_t bytes = Footprint(m, i);
    l.bytes_per_second = ReadAlone(loops, bytes);
    const auto sharers = static_cast<int>(std::min<int64_t>(l.sharers, m.cores));
    l.shared_bytes_per_second = sharers > 1 ? ReadTogether(loops, bytes, sharers, true) : l.bytes_per_second;
    l.latency_seconds = Latency(bytes, l.line_bytes);
  }
  if (m.levels.size() > 1 && m.levels.back().bytes == 0) {
    const size_t last = m.levels.size() - 2;
    if (m.levels[last].name != "reg") {
      m.levels[last].bytes = Capacity(loops, m.levels[last], Footprint(m, last), m.levels.back().bytes_per_second);
    }
  }
  int64_t done = static_cast<int64_t>(m.levels.size()) + 1;
  for (const KernelChoice& choice : AllKernels()) {
    progress.Update(++done, total, choice.name);
    if (choice.kernel != nullptr) m.kernels.push_back(MeasureKernel(*choice.kernel));
  }
  return m;
}

void PrintTable(const Machine& m) {
  fmt::print(
      "{}, {} cores, {:.2f} GHz\nper core: {:.1f} GFLOP/s f32, {:.1f} bf16 vector, {:.1f} bf16 tensor, {:.2f} G "
      "exp/s\n",
      m.name, m.cores, m.clock_hz * 1e-9, m.fma_flops * 1e-9, m.dot_bf16_flops * 1e-9, m.tensor_flops * 1e-9,
      m.exp_per_second * 1e-9);
  fmt::print("{:<8}{:>12}{:>6}{:>9}{:>14}{:>14}{:>12}\n", "level", "KiB", "ways", "sharers", "GB/s alone",
             "GB/s shared", "latency ns");
  for (const MemoryLevel& l : m.levels) {
    fmt::print("{:<8}{:>12.6g}{:>6}{:>9}{:>14.1f}{:>14.1f}{:>12.2f}\n", l.name, static_cast<double>(l.bytes) / 1024,
               l.ways, l.sharers, l.bytes_per_second * 1e-9, l.shared_bytes_per_second * 1e-9, l.latency_seconds * 1e9);
  }
  fmt::print("{:<14}{:>10}{:>16}{:>16}   {}\n", "kernel", "tile rows", "GFLOP/s", "G scores/s", "packing GB/s");
  for (const KernelRates& k : m.kernels) {
    for (const TileRate& t : k.tiles) {
      fmt::print("{:<14}{:>10}{:>16.1f}{:>16.2f}", k.kernel, t.rows, t.product_flops * 1e-9,
                 t.scores_per_second * 1e-9);
      for (const PackRate& p : k.packing) {
        if (t.rows == k.tiles.back().rows)
          fmt::print("   {:.1f} of {} bytes", p.bytes_per_second * 1e-9, p.element_bytes);
      }
      fmt::print("\n");
    }
  }
}

}  // namespace

void AddCalibrate(CLI::App& app, Action* action) {
  CLI::App* sub = app.add_subcommand("calibrate", "Measure this machine and write it as a machine file");
  const auto path = std::make_shared<std::string>();
  const auto json = std::make_shared<bool>(false);
  sub->add_option("--out", *path,
                  "Machine file to write; ATTENIO_MACHINE=FILE then stands for this machine in every subcommand");
  sub->add_flag_callback(
      "--quick",
      [] {
        rate_effort = {0.004, 3};
      },
      "Shorter timings: about 1 s instead of 5 s, and rates that are less settled");
  sub->add_flag("--json", *json, "The machine as one JSON object on stdout");
  sub->callback([=] {
    *action = [=] {
      std::ofstream file;
      if (!path->empty()) {
        file.open(*path);
        if (!file) Refuse("--out {}: cannot be written", *path);
      }
      const Machine machine = Calibrate();
      const std::string text = MachineToJson(machine).dump(2) + "\n";
      if (file.is_open() && !(file << text << std::flush)) Refuse("--out {}: cannot be written", *path);
      if (*json) {
        fmt::print("{}\n", MachineToJson(machine).dump());
      } else {
        PrintTable(machine);
      }
      return kExitOk;
    };
  });
}

}  // namespace attenio::cli
