// Softmax of one tile of scores in place: limits, modifiers, new maxima, probabilities, sums. Lanes are keys, so that the
// arithmetic of a row knows nothing of the other rows; the horizontal reductions are done for four rows at once.
#if defined(ATTENIO_SRC_KERNELS_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTENIO_SRC_KERNELS_SOFTMAX_INL_H_
#undef ATTENIO_SRC_KERNELS_SOFTMAX_INL_H_
#else
#define ATTENIO_SRC_KERNELS_SOFTMAX_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/math.h"
#include "hwy/highway.h"
#include "kernels/exp-inl.h"
#include "kernels/kernels.h"
#include "kernels/load-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The tallest tile, rounded up to whole vectors of rows; the tile unit (amx_step-inl.h) takes 32.
constexpr int kStateRows = 32;

// Per-row values of a tile between its phases; at the start of the scratch memory.
struct alignas(64) TileState {
  float partial[kStateRows * kLanes];  // per row and lane: maximum, then sum
  float max[kStateRows];
  float reference[kStateRows];         // max, or 0 while max is -infinity
  float alpha[kStateRows];             // 2^(old max - new max)
  float sum[kStateRows];
  int64_t begin[kStateRows];           // allowed keys of the block
  int64_t end[kStateRows];
  const char* mask[kStateRows];        // mask element of key 0 of the block, to prefetch
  int64_t panel_scores;                // floats between the score panels: tile rows x kPanelKeys
  bool full;                           // every row is allowed every key of the tile's panels
};

// The key panels that hold the allowed keys of row r.
HWY_INLINE int64_t FirstPanel(const TileState& t, int r) { return t.begin[r] / kPanelKeys; }
HWY_INLINE int64_t LastPanel(const TileState& t, int r) { return CeilDiv(t.end[r], kPanelKeys); }

// Excludes the keys of the panel outside [begin, end): never by adding, a NaN there must not survive.
HWY_INLINE void ClipPanel(float* s, int64_t begin, int64_t end) {
  const DF d;
  const hn::Rebind<int32_t, DF> di;
  for (int w = 0; w < 2; ++w) {
    const auto key = hn::Iota(di, w * kLanes);
    const auto before = hn::Lt(key, hn::Set(di, static_cast<int32_t>(begin)));
    const auto inside = hn::AndNot(hn::VecFromMask(di, before),
                                   hn::VecFromMask(di, hn::Lt(key, hn::Set(di, static_cast<int32_t>(end)))));
    const auto keep = hn::MaskFromVec(hn::BitCast(d, inside));
    hn::Store(hn::IfThenElse(keep, hn::Load(d, s + w * kLanes), hn::Set(d, kMinusInfinity)), d, s + w * kLanes);
  }
}

HWY_INLINE void ClipRow(const TileState& t, int r, float* s) {
  const int64_t begin = t.begin[r], end = t.end[r];
  if (begin >= end) return;
  const int64_t first = begin / kPanelKeys, last = (end - 1) / kPanelKeys;
  if (begin % kPanelKeys != 0 || (first == last && end % kPanelKeys != 0)) {
    ClipPanel(s + first * t.panel_scores, begin - first * kPanelKeys, end - first * kPanelKeys < kPanelKeys ? end - first * kPanelKeys : kPanelKeys);
  }
  if (last != first && end % kPanelKeys != 0) ClipPanel(s + last * t.panel_scores, 0, end - last * kPanelKeys);
}

// Maximum per lane of a row.
HWY_INLINE void MaxRow(TileState& t, int r, const float* s) {
  const DF d;
  VF max0 = hn::Set(d, kMinusInfinity), max1 = max0;
  const int64_t last = LastPanel(t, r);
  for (int64_t p = FirstPanel(t, r); p < last; ++p) {
    max0 = hn::Max(max0, hn::Load(d, s + p * t.panel_scores));
    max1 = hn::Max(max1, hn::Load(d, s + p * t.panel_scores + kLanes));
  }
  hn::Store(hn::Max(max0, max1), d, t.partial + r * kLanes);
}

// How the probabilities of a panel's row are kept for PV: here as they are.
struct KeepF32 {
  HWY_INLINE void operator()(VF p0, VF p1, float* at) const {
    hn::Store(p0, DF(), at);
    hn::Store(p1, DF(), at + kLanes);
  }
};

// Scores of the panels [begin, end) to probabilities 2^((s - reference) * scale), and their sum per lane. Careful: a key that
// is allowed keeps a probability above 0, so that a NaN or infinity in its V is not skipped with the excluded keys.
template <class Keep, bool kScaled, bool kCareful>
HWY_INLINE void ExpRow(TileState& t, int r, float scale, int64_t begin, int64_t end, float* s) {
  const DF d;
  const VF reference = hn::Set(d, t.reference[r]);
  const VF factor = hn::Set(d, scale);
  VF sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  const auto probability = [&](const float* at) HWY_ATTR {
    const VF score = hn::Load(d, at);
    VF x = hn::Sub(score, reference);
    if constexpr (kScaled) x = hn::Mul(x, factor);
    VF p = Exp2(d, x);
    if constexpr (kCareful) {
      const VF tiny = hn::Set(d, std::numeric_limits<float>::min());
      p = hn::IfThenElse(hn::Lt(p, tiny), tiny, p);
      p = hn::IfThenZeroElse(hn::Eq(score, hn::Set(d, kMinusInfinity)), p);
    }
    return p;
  };
  for (int64_t panel = begin; panel < end; ++panel) {
    float* at = s + panel * t.panel_scores;
    const VF p0 = probability(at), p1 = probability(at + kLanes);
    sum0 = hn::Add(sum0, p0);
    sum1 = hn::Add(sum1, p1);
    Keep()(p0, p1, at);
  }
  hn::Store(hn::Add(sum0, sum1), d, t.partial + r * kLanes);
}

// Panels of the tile [begin, end) that hold no allowed key of row r weigh 0.
HWY_INLINE void ClearRow(const TileState& t, int r, int64_t begin, int64_t end, float* s) {
  const DF d;
  int64_t first = FirstPanel(t, r), last = LastPanel(t, r);
  if (t.begin[r] >= t.end[r]) first = last = begin;
  for (int64_t p = begin; p < first; ++p) {
    for (int w = 0; w < 2; ++w) hn::Store(hn::Zero(d), d, s + p * t.panel_scores + w * kLanes);
  }
  for (int64_t p = last; p < end; ++p) {
    for (int w = 0; w < 2; ++w) hn::Store(hn::Zero(d), d, s + p * t.panel_scores + w * kLanes);
  }
}

struct MaxOf {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};
struct SumOf {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};

// Reduces `partial` over its lanes for four rows at once, in the same order for every row: out[0..4).
template <class Op>
HWY_INLINE void ReduceFourRows(const float* partial, float* out, Op op) {
  const hn::FixedTag<float, 4> d;
  using V4 = hn::Vec<decltype(d)>;
  const auto fold = [&](const float* row) HWY_ATTR {
    if constexpr (kLanes == 16) {
      return op(op(hn::Load(d, row), hn::Load(d, row + 4)), op(hn::Load(d, row + 8), hn::Load(d, row + 12)));
    } else if constexpr (kLanes == 8) {
      return op(hn::Load(d, row), hn::Load(d, row + 4));
    } else {
      return hn::Load(d, row);
    }
  };
  const V4 a = fold(partial), b = fold(partial + kLanes);
  const V4 c = fold(partial + 2 * kLanes), e = fold(partial + 3 * kLanes);
  const V4 ab = op(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));  // a0a2 b0b2 a1a3 b1b3
  const V4 ce = op(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  hn::Store(op(hn::ConcatLowerLower(d, ce, ab), hn::ConcatUpperUpper(d, ce, ab)), d, out);
}

// From the maxima in `partial` and the old state: new maxima, reference and alpha of every row.
HWY_INLINE void UpdateMax(TileState& t, int rows, float scale, float* max) {
  const DF d;
  HWY_ALIGN float block[kStateRows];
  for (int r = 0; r < rows; r += 4) ReduceFourRows(t.partial + r * kLanes, block + r, MaxOf());
  for (int r = 0; r < rows; ++r) t.max[r] = max[r];
  for (int r = 0; r < rows; r += kLanes) {
    const VF old_max = hn::Load(d, t.max + r);
    const VF new_max = hn::Max(old_max, hn::Load(d, block + r));
    const VF reference = hn::IfThenZeroElse(hn::Eq(new_max, hn::Set(d, kMinusInfinity)), new_max);
    hn::Store(new_max, d, t.max + r);
    hn::Store(reference, d, t.reference + r);
    hn::Store(Exp2(d, hn::Mul(hn::Sub(old_max, reference), hn::Set(d, scale))), d, t.alpha + r);
  }
  for (int r = 0; r < rows; ++r) max[r] = t.max[r];
}

HWY_INLINE void UpdateSum(TileState& t, int rows, float* sum) {
  const DF d;
  HWY_ALIGN float block[kStateRows];
  for (int r = 0; r < rows; r += 4) ReduceFourRows(t.partial + r * kLanes, block + r, SumOf());
  for (int r = 0; r < rows; ++r) t.sum[r] = sum[r];
  for (int r = 0; r < rows; r += kLanes) {
    hn::Store(hn::MulAdd(hn::Load(d, t.sum + r), hn::Load(d, t.alpha + r), hn::Load(d, block + r)), d, t.sum + r);
  }
  for (int r = 0; r < rows; ++r) sum[r] = t.sum[r];
}

template <class Keep, bool kScaled, bool kCareful>
HWY_NOINLINE void ExpRows(TileState& t, int rows, float scale, int64_t begin, int64_t end, float* s) {
  for (int r = 0; r < rows; ++r, s += kPanelKeys) {
    if (t.full) {
      ExpRow<Keep, kScaled, kCareful>(t, r, scale, begin, end, s);
    } else {
      ExpRow<Keep, kScaled, kCareful>(t, r, scale, FirstPanel(t, r), LastPanel(t, r), s);
      ClearRow(t, r, begin, end, s);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_SOFTMAX_INL_H_
