// What the parts of the f32 kernels cost, as a fraction of the multiply-add peak measured beside them and in cycles per score
// (a cycle: the time of one vector multiply-add at that peak, per vector unit that does one per cycle).
//
//   kernels_bench --benchmark_filter='AVX3/d64'      Block: what a call costs; Qk, Softmax, Pv: its parts; Pack*, Exp2.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/bits.h"
#include "base/math.h"
#include "kernels/f32.h"
#include "kernels/kernels.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "../bench/kernels_bench.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#undef ATTENIO_BENCH_SIMD
#define ATTENIO_BENCH_SIMD (!HWY_HAVE_SCALABLE && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)

#ifndef ATTENIO_BENCH_ONCE
#define ATTENIO_BENCH_ONCE
namespace attenio {

// The parts of one target, as the block function calls them.
struct Parts {
  const char* target;
  int lanes, tile_rows, panel_keys;
  double (*fma)(int64_t repeats);  // flop done
  void (*qk)(const BlockArgs& args, int rows);
  void (*softmax)(const BlockArgs& args, int rows);
  void (*pv)(const BlockArgs& args, int rows);
  void (*exp2)(const float* in, float* out, int64_t n);
};

}  // namespace attenio
#endif

#if ATTENIO_BENCH_SIMD
#include "kernels/step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {

// Independent chains of multiply-adds on registers: enough for 4 cycles of latency and two units.
inline double Fma(int64_t repeats) {
  const DF d;
  constexpr int kChains = 12;
  VF acc[kChains];
  VF a = hn::Set(d, 1.0f), b = hn::Set(d, 1e-9f);
  for (int i = 0; i < kChains; ++i) acc[i] = hn::Set(d, static_cast<float>(i));
  for (int64_t n = 0; n < repeats; ++n) {
    asm volatile("" : "+v"(a.raw), "+v"(b.raw));
    HWY_UNROLL(12)
    for (int i = 0; i < kChains; ++i) acc[i] = hn::MulAdd(acc[i], a, b);
  }
  VF sum = acc[0];
  for (int i = 1; i < kChains; ++i) sum = hn::Add(sum, acc[i]);
  benchmark::DoNotOptimize(hn::GetLane(sum));
  return 2.0 * kChains * kLanes * static_cast<double>(repeats);
}

inline void QkPart(const BlockArgs& args, int rows) {
  TileState& t = *static_cast<TileState*>(args.scratch);
  kQkRows[rows]({.q = static_cast<const float*>(args.q),
                 .k = static_cast<const float*>(args.k),
                 .dim = args.qk_dim,
                 .begin = 0,
                 .end = CeilDiv(args.block_keys, kPanelKeys),
                 .s = reinterpret_cast<float*>(&t + 1),
                 .max = t.partial,
                 .mask = nullptr,
                 .mask_panel_bytes = 0});
}

inline void SoftmaxPart(const BlockArgs& args, int rows) {
  TileState& t = *static_cast<TileState*>(args.scratch);
  t.panel_scores = kPanelScores;
  const Range panels = SetLimits(args, 0, rows, t);
  Softmax<KeepF32>(args, 0, rows, panels, t, reinterpret_cast<float*>(&t + 1));
}

inline void PvPart(const BlockArgs& args, int rows) {
  TileState& t = *static_cast<TileState*>(args.scratch);
  kPvRows[rows]({.p = reinterpret_cast<float*>(&t + 1),
                 .v = static_cast<const float*>(args.v),
                 .alpha = t.alpha,
                 .out = args.out,
                 .panel_stride = RoundUp(args.block_keys, kPanelKeys) * kPanelDims,
                 .begin = 0,
                 .end = CeilDiv(args.block_keys, kPanelKeys),
                 .vectors = CeilDiv(args.v_dim, kLanes),
                 .out_stride = args.out_stride});
}

inline void Exp2Part(const float* in, float* out, int64_t n) {
  const DF d;
  for (int64_t i = 0; i < n; i += kLanes) hn::StoreU(Exp2(d, hn::LoadU(d, in + i)), d, out + i);
}

inline Parts GetParts() {
  return {hwy::TargetName(HWY_TARGET), kLanes, kTileRows, kPanelKeys, Fma, QkPart, SoftmaxPart, PvPart, Exp2Part};
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace attenio {
namespace {

// Processor time of this thread: on a shared machine a pre-empted turn is not a slow one.
double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<float[], Free>;

// Aligned memory with numbers around 0.
Memory Floats(int64_t n, float scale = 1) {
  Memory m(static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(RoundUp(n + 16, 16)) * 4)));
  uint32_t state = 12345;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    m[i] = scale * (static_cast<float>(state >> 8) * 0x1p-23f - 1);
  }
  return m;
}

double Median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<int64_t>(x.size()) / 2, x.end());
  return x[x.size() / 2];
}

// Times `work` and the peak in turns. Counters: peak (flop/s), fraction of it for `flop` operations, and cycles per item.
template <class F>
void Interleave(benchmark::State& state, const Parts& parts, double flop, double items, F work) {
  std::vector<double> peaks, fractions, cycles;
  const int64_t repeats = 40000;
  work();
  for (auto _ : state) {
    const double start = Now();
    const double operations = parts.fma(repeats);
    const double middle = Now();
    work();
    const double seconds = Now() - middle;
    const double peak = operations / (middle - start);
    state.SetIterationTime(seconds);
    peaks.push_back(peak);
    fractions.push_back(flop / seconds / peak);
    cycles.push_back(seconds * peak / (2 * parts.lanes) / items);
  }
  state.counters["peak"] = benchmark::Counter(Median(peaks));
  if (flop > 0) state.counters["fraction"] = Median(fractions);
  state.counters["fma_cycles_per_item"] = Median(cycles);
}

// One head packed for a kernel: `keys` keys in blocks, a tile of `rows` rows.
struct Head {
  Memory q, k, v, out, max, sum, scratch;
  BlockArgs args;
  int64_t blocks, k_floats, v_floats;

  Head(const KernelSet& kernel, int64_t rows, int64_t keys, int64_t block, int64_t dim)
      : q(Floats(RoundUp(rows, kernel.quantum.rows) * dim, 0.3f)), k(Floats(keys * dim)), v(Floats(keys * dim)),
        out(Floats(rows * dim)), max(Floats(rows)), sum(Floats(rows)),
        scratch(Floats(kernel.scratch_bytes(rows, block, dim, dim) / 4)),
        args{.q = q.get(), .k = k.get(), .v = v.get(), .out = out.get(), .max = max.get(), .sum = sum.get(),
             .scratch = scratch.get(), .rows = rows, .block_keys = block, .keys_begin = 0, .keys_end = block,
             .qk_dim = dim, .v_dim = dim, .out_stride = dim},
        blocks(keys / block), k_floats(block * dim), v_floats(block * dim) {
    std::fill_n(max.get(), rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sum.get(), rows, 0.0f);
    std::fill_n(out.get(), rows * dim, 0.0f);
  }
};

struct Target {
  Parts parts;
  const KernelSet* kernel;
};

std::vector<Target> Targets() {
  std::vector<Parts> parts;
#if HWY_TARGETS & HWY_AVX3
  parts.push_back(N_AVX3::GetParts());
#endif
#if HWY_TARGETS & HWY_AVX2
  parts.push_back(N_AVX2::GetParts());
#endif
#if HWY_TARGETS & HWY_SSE4
  parts.push_back(N_SSE4::GetParts());
#endif
#if HWY_TARGETS & HWY_NEON
  parts.push_back(N_NEON::GetParts());
#endif
  std::vector<Target> targets;
  const std::vector<KernelChoice> kernels = F32Kernels();
  for (size_t i = 0; i < std::min(parts.size(), kernels.size()); ++i) {
    if (kernels[i].kernel != nullptr) targets.push_back({parts[i], kernels[i].kernel});
  }
  return targets;
}

void Block(benchmark::State& state, Target t, int64_t rows, int64_t keys, int64_t block, int64_t dim) {
  Head head(*t.kernel, rows, keys, block, dim);
  Interleave(state, t.parts, 4.0 * double(rows * head.blocks * block * dim), double(rows * head.blocks * block), [&] {
    for (int64_t b = 0; b < head.blocks; ++b) {
      BlockArgs args = head.args;
      args.k = head.k.get() + b * head.k_floats;
      args.v = head.v.get() + b * head.v_floats;
      args.first_key = b * block;
      t.kernel->block(args);
    }
  });
}

// `times` tiles of one block whose K and V stream from L2, as in a strip.
constexpr int kTimes = 20;

void Qk(benchmark::State& state, Target t, int64_t block, int64_t dim) {
  Head head(*t.kernel, t.parts.tile_rows, block, block, dim);
  const double n = double(kTimes) * t.parts.tile_rows * double(block);
  Interleave(state, t.parts, 2 * n * double(dim), n, [&] {
    for (int i = 0; i < kTimes; ++i) t.parts.qk(head.args, t.parts.tile_rows);
  });
}

void Pv(benchmark::State& state, Target t, int64_t block, int64_t dim) {
  Head head(*t.kernel, t.parts.tile_rows, block, block, dim);
  const double n = double(kTimes) * t.parts.tile_rows * double(block);
  t.parts.softmax(head.args, t.parts.tile_rows);
  Interleave(state, t.parts, 2 * n * double(dim), n, [&] {
    for (int i = 0; i < kTimes; ++i) t.parts.pv(head.args, t.parts.tile_rows);
  });
}

void Softmax(benchmark::State& state, Target t, int64_t block, int64_t dim) {
  Head head(*t.kernel, t.parts.tile_rows, block, block, dim);
  const double n = double(kTimes) * t.parts.tile_rows * double(block);
  Interleave(state, t.parts, 0, n, [&] {
    for (int i = 0; i < kTimes; ++i) t.parts.softmax(head.args, t.parts.tile_rows);
  });
}

void Exp2(benchmark::State& state, Target t) {
  constexpr int64_t kCount = 2048;
  Memory in = Floats(kCount, 20), out = Floats(kCount);
  Interleave(state, t.parts, 0, 50 * (kCount - 512), [&] {
    for (int i = 0; i < 50; ++i) {
      t.parts.exp2(in.get(), out.get() + 512, kCount - 512);  // not the offset at which loads would wait for stores
      benchmark::ClobberMemory();
    }
  });
}

// Rows of `heads` interleaved heads, as in (batch, row, head, element) tensors.
void Pack(benchmark::State& state, Target t, char which, DType dtype, int64_t dim) {
  constexpr int64_t kRows = 1024, kHeads = 8;
  Memory in = Floats(kRows * kHeads * dim), out = Floats(RoundUp(kRows, t.kernel->quantum.rows) * dim);
  const PackArgs args{.source = {.base = in.get(), .dtype = dtype, .outer = kHeads * dim}, .rows = kRows, .dim = dim,
                      .multiplier = which == 'q' ? 0.125f : 1.0f, .packed = out.get()};
  Interleave(state, t.parts, 0, double(kRows * dim), [&] {
    if (which == 'q') return t.kernel->pack_q(args);
    if (which == 'k') return t.kernel->pack_k(args);
    benchmark::DoNotOptimize(t.kernel->pack_v(args));
  });
}

template <class F, class... Args>
void Register(const std::string& name, F f, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), f, args...)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

void RegisterAll() {
  for (const Target& t : Targets()) {
    const std::string base = t.kernel->name;
    Register(base + "/Exp2", Exp2, t);
    for (const int64_t dim : {64, 128}) {
      const std::string d = base + "/d" + std::to_string(dim);
      for (const int64_t block : {64, 128, 192, 256, 512}) {
        const std::string c = "/c" + std::to_string(block);
        const int64_t keys = 4096 / block * block;
        Register(d + c + "/Block", Block, t, 28 * t.parts.tile_rows, keys, block, dim);
        Register(d + c + "/Qk", Qk, t, block, dim);
        Register(d + c + "/Softmax", Softmax, t, block, dim);
        Register(d + c + "/Pv", Pv, t, block, dim);
      }
      for (const int64_t rows : {1, 2, 3, 4, 6, 8}) {
        Register(d + "/c128/BlockRows" + std::to_string(rows), Block, t, rows, int64_t{4096}, int64_t{128}, dim);
      }
      for (const char which : {'q', 'k', 'v'}) {
        for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
          Register(d + "/Pack/" + which + "/" + Name(type), Pack, t, which, type, dim);
        }
      }
    }
  }
}

[[maybe_unused]] const bool kRegistered = (RegisterAll(), true);

}  // namespace
}  // namespace attenio
#endif
