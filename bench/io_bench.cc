// How long the analysis takes: it runs when a call is planned.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>

#include "io/random_io.h"

namespace attenio {
namespace {

Shape MakeShape(int64_t n, int64_t d) {
  Shape s;
  s.batch = 1;
  s.q_heads = s.kv_heads = 8;
  s.q_len = s.kv_len = n;
  s.qk_dim = s.v_dim = d;
  return s;
}

// Arguments: length, head dimension, threads.
void BM_Solve(benchmark::State& state) {
  Shape s = MakeShape(state.range(0), state.range(1));
  s.right = 0;
  SolveOptions o;
  o.quantum = {14, 32, 16};
  o.threads = state.range(2);
  const Machine& m = ThisMachine();
  for (auto _ : state) benchmark::DoNotOptimize(Solve(s, m, o));
}
BENCHMARK(BM_Solve)
    ->ArgsProduct({{1, 4096, 1 << 20}, {16, 128, 576, 1 << 14}, {1, 64, 1024}})
    ->Unit(benchmark::kMicrosecond);

// The quantum of 1 key is the longest search over key blocks.
void BM_SolveSmallestQuantum(benchmark::State& state) {
  const Shape s = MakeShape(1 << 20, 64);
  SolveOptions o;
  o.threads = 1024;
  for (auto _ : state) benchmark::DoNotOptimize(Solve(s, ThisMachine(), o));
}
BENCHMARK(BM_SolveSmallestQuantum)->Unit(benchmark::kMicrosecond);

// One level, all dataflows; the argument is the level's KiB (64 bytes: a register file).
void BM_SolveLevel(benchmark::State& state) {
  const Shape s = MakeShape(1 << 20, 128);
  MemoryLevel level;
  level.name = "pad";
  level.bytes = state.range(0);
  for (auto _ : state) benchmark::DoNotOptimize(SolveLevel(s, level, {}));
}
BENCHMARK(BM_SolveLevel)->Arg(2048)->Arg(32 << 10)->Arg(1 << 20)->Arg(32 << 20)->Unit(benchmark::kMicrosecond);

// The slowest of many problems whose every number is anything up to the largest allowed, each at its best of 5: `worst_us`.
// The argument: 0 Solve, 1 SolveLevel for each dataflow at each level.
void BM_Hostile(benchmark::State& state) {
  double worst = 0;
  uint64_t worst_seed = 0;
  const auto time = [&](uint64_t seed, auto call) {
    double best = INFINITY;
    for (int i = 0; i < 5; ++i) {
      const auto start = std::chrono::steady_clock::now();
      benchmark::DoNotOptimize(call());
      best =
          std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    if (best > worst) worst_seed = seed;
    worst = std::max(worst, best);
  };
  uint64_t seed = 0;
  for (auto _ : state) {
    Random r(seed);
    const HostileProblem p(&r);
    if (state.range(0) == 0) {
      time(seed, [&] { return Solve(p.shape, p.machine, p.options); });
    } else {
      for (const MemoryLevel& level : p.machine.levels) {
        for (int d = 0; d < 5; ++d)
          time(seed, [&] { return SolveLevel(p.shape, level, p.options, static_cast<Dataflow>(d)); });
      }
    }
    ++seed;
  }
  state.counters["worst_us"] = worst;
  state.counters["worst_seed"] = static_cast<double>(worst_seed);
}
BENCHMARK(BM_Hostile)->Arg(0)->Arg(1)->Iterations(20000)->Unit(benchmark::kMicrosecond);

// Walking the steps of one query tile as the executor does.
void BM_Steps(benchmark::State& state) {
  Shape s = MakeShape(16384, 128);
  if (state.range(0) != 0) s.right = 0;
  SolveOptions o;
  o.quantum = {14, 32, 16};
  const Schedule schedule = *Solve(s, ThisMachine(), o);
  int64_t steps = 0;
  for (auto _ : state) {
    ForEachStep(
        schedule, s, TileQueries(schedule, s, 3), [&steps](const Step&) { ++steps; }, 2);
  }
  state.SetItemsProcessed(steps);
}
BENCHMARK(BM_Steps)->Arg(0)->Arg(1);

}  // namespace
}  // namespace attenio
