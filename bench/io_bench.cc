// How long the analysis takes: it runs when a call is planned.
#include <benchmark/benchmark.h>

#include "attenio/io.h"

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
BENCHMARK(BM_Solve)->ArgsProduct({{1, 4096, 1 << 20}, {16, 128, 576, 1 << 14}, {1, 64, 1024}})->Unit(benchmark::kMicrosecond);

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

// Walking the steps of one query tile as the executor does.
void BM_Steps(benchmark::State& state) {
  Shape s = MakeShape(16384, 128);
  if (state.range(0) != 0) s.right = 0;
  SolveOptions o;
  o.quantum = {14, 32, 16};
  const Schedule schedule = *Solve(s, ThisMachine(), o);
  int64_t steps = 0;
  for (auto _ : state) {
    ForEachStep(schedule, s, TileQueries(schedule, s, 3), [&steps](const Step&) { ++steps; }, 2);
  }
  state.SetItemsProcessed(steps);
}
BENCHMARK(BM_Steps)->Arg(0)->Arg(1);

}  // namespace
}  // namespace attenio
