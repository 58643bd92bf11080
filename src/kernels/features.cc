#include "kernels/features.h"

#include <algorithm>
#include <cstdint>

// Register tiles are arrays of vectors, which the scalable targets do not have.
#if !defined(__x86_64__)
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#include "kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/features.cc"
#include "hwy/foreach_target.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace {

// At most 16 lanes: kPanelQuantum and kColumnQuantum are whole vectors.
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

// Vectors of a panel that one pass keeps in registers; kPanelQuantum is a multiple of it for 4, 8 and 16 lanes.
constexpr int kGroup = 3;

void ExtendStack(const PanelArgs& p, const MonomialRun& run) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int level = run.keep; level < run.depth; ++level) {
    const float* x = p.x + run.path[level] * p.width;
    const float* parent = p.stack + (level - 1) * p.width;
    float* out = p.stack + level * p.width;
    for (int64_t r = 0; r < p.width; r += lanes) {
      const V v = hn::Load(d, x + r);
      hn::Store(level == 0 ? v : hn::Mul(v, hn::Load(d, parent + r)), d, out + r);
    }
  }
}

void ConstantRow(const PanelArgs& p, const MonomialRun& run) {
  float* out = p.panel + run.panel_row * p.width;
  for (int64_t r = 0; r < p.width; ++r) out[r] = r >= p.rows ? 0.0f : p.degree_scale ? p.degree_scale[r] : 1.0f;
  if (p.weights == nullptr) return;
  for (int64_t r = 0; r < p.width; ++r) p.dots[r] += p.weights[run.panel_row] * out[r];
}

// Children of one parent for kGroup vectors of rows from row r.
template <bool kQuery>
HWY_INLINE void Siblings(const PanelArgs& p, const MonomialRun& run, int64_t r) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V base[kGroup], dot[kGroup];
  for (int g = 0; g < kGroup; ++g) {
    const int64_t row = r + g * lanes;
    base[g] = run.depth == 0 ? hn::Set(d, 1.0f) : hn::Load(d, p.stack + (run.depth - 1) * p.width + row);
    dot[g] = hn::Zero(d);
    if (kQuery) {
      base[g] = hn::Mul(base[g], hn::Load(d, p.degree_scale + (run.depth + 1) * p.width + row));
      base[g] = hn::Mul(base[g], hn::Set(d, run.first_scale));
      dot[g] = hn::Load(d, p.dots + row);
    }
  }
  const float rest = run.scale / run.first_scale;
  for (int64_t c = run.begin; c < run.end; ++c) {
    const int64_t f = run.panel_row + c - run.begin;
    if (kQuery && c == run.begin + 1 && rest != 1.0f) {
      for (int g = 0; g < kGroup; ++g) base[g] = hn::Mul(base[g], hn::Set(d, rest));
    }
    for (int g = 0; g < kGroup; ++g) {
      const int64_t row = r + g * lanes;
      const V v = hn::Mul(base[g], hn::Load(d, p.x + c * p.width + row));
      hn::Store(v, d, p.panel + f * p.width + row);
      if (kQuery) dot[g] = hn::MulAdd(hn::Set(d, p.weights[f]), v, dot[g]);
    }
  }
  if (kQuery) {
    for (int g = 0; g < kGroup; ++g) hn::Store(dot[g], d, p.dots + r + g * lanes);
  }
}

template <bool kQuery>
void PanelOf(const PanelArgs& p) {
  const int64_t step = kGroup * static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t i = 0; i < p.run_count; ++i) {
    const MonomialRun& run = p.runs[i];
    if (run.depth < 0) {
      ConstantRow(p, run);
      continue;
    }
    ExtendStack(p, run);
    for (int64_t r = 0; r < p.width; r += step) Siblings<kQuery>(p, run, r);
  }
}

void Panel(const PanelArgs& p) {
  if (p.degree_scale != nullptr) {
    PanelOf<true>(p);
  } else {
    PanelOf<false>(p);
  }
}

void RowSums(const float* panel, int64_t width, int64_t features, float* sums) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t f = 0; f < features; ++f) {
    V sum[kGroup];
    for (int g = 0; g < kGroup; ++g) sum[g] = hn::Load(d, panel + f * width + g * lanes);
    for (int64_t r = kGroup * lanes; r < width; r += kGroup * lanes) {
      for (int g = 0; g < kGroup; ++g) sum[g] = hn::Add(sum[g], hn::Load(d, panel + f * width + r + g * lanes));
    }
    sums[f] += hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum[0], sum[1]), sum[2])));
  }
}

void Weights(const WeightArgs& p) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < p.rows; ++r) {
    float* row = p.scores + r * p.stride;
    const V shift = hn::Set(d, p.shift[r]);
    V sum = hn::Zero(d);
    int64_t j = 0;
    for (; j + lanes <= p.count; j += lanes) {
      const V w = Exp2(d, hn::Sub(hn::Load(d, row + j), shift));
      hn::Store(w, d, row + j);
      sum = hn::Add(sum, w);
    }
    if (j < p.count) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(p.count - j));
      const V w = hn::IfThenElseZero(mask, Exp2(d, hn::Sub(hn::Load(d, row + j), shift)));
      hn::Store(w, d, row + j);
      sum = hn::Add(sum, w);
      j += lanes;
    }
    for (; j < p.stride; j += lanes) hn::Store(hn::Zero(d), d, row + j);
    p.sums[r] += hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// One register tile: kRows x kVectors accumulators, one broadcast of a and kVectors loads of b per step.
template <int kRows, int kVectors>
HWY_INLINE void Tile(const ProductArgs& p, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, float* HWY_RESTRICT c) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V acc[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      acc[i][j] = hn::Zero(d);
      hwy::Prefetch(c + i * p.c_stride + j * lanes);
    }
  }
  for (int64_t k = 0; k < p.depth; ++k) {
    V row[kVectors];
    for (int j = 0; j < kVectors; ++j) row[j] = hn::Load(d, b + j * lanes);
    for (int i = 0; i < kRows; ++i) {
      const V x = hn::Set(d, a[i * p.a_row]);
      for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::MulAdd(x, row[j], acc[i][j]);
    }
    a += p.a_k;
    b += p.stride;
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      float* out = c + i * p.c_stride + j * lanes;
      hn::Store(hn::Add(hn::Load(d, out), acc[i][j]), d, out);
    }
  }
}

template <int kRows, int kVectors>
HWY_NOINLINE void Tiles(const ProductArgs& p, int64_t column) {
  for (int64_t i = 0; i < p.rows; i += kRows) {
    Tile<kRows, kVectors>(p, p.a + i * p.a_row, p.b + column, p.c + i * p.c_stride + column);
  }
}

// 32 vector registers (AVX-512, Arm) hold 6 x 4 tiles, 16 (AVX2, SSE4) 4 x 3.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_ARCH_ARM_A64 || HWY_ARCH_PPC
constexpr bool kManyRegisters = true;
#else
constexpr bool kManyRegisters = false;
#endif

void Product(const ProductArgs& args) {
  ProductArgs p = args;
  if (p.c_stride == 0) p.c_stride = p.stride;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t most = kManyRegisters ? 4 : 3;
  int64_t left = p.columns / lanes;
  int64_t tiles = (left + most - 1) / most;
  for (int64_t column = 0; left > 0; --tiles) {
    const int64_t take = (left + tiles - 1) / tiles;
    switch (take) {
      case 1: Tiles<12, 1>(p, column); break;
      case 2: kManyRegisters ? Tiles<12, 2>(p, column) : Tiles<6, 2>(p, column); break;
      case 3: kManyRegisters ? Tiles<6, 3>(p, column) : Tiles<4, 3>(p, column); break;
      default: Tiles<6, 4>(p, column); break;
    }
    column += take * lanes;
    left -= take;
  }
}

}  // namespace

const FeatureKernels* Features() {
  static const FeatureKernels kKernels = {hwy::TargetName(HWY_TARGET), Panel, Product, Weights, RowSums};
  return &kKernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attenio {

HWY_EXPORT(Features);

const FeatureKernels& GetFeatureKernels() { return *HWY_DYNAMIC_DISPATCH(Features)(); }

}  // namespace attenio
#endif  // HWY_ONCE
