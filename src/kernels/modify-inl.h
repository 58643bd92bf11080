// Score modifiers of one row of a tile, in the order of the operator: softcap, ALiBi, mask.
#if defined(ATTENIO_SRC_KERNELS_MODIFY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTENIO_SRC_KERNELS_MODIFY_INL_H_
#undef ATTENIO_SRC_KERNELS_MODIFY_INL_H_
#else
#define ATTENIO_SRC_KERNELS_MODIFY_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/kernels.h"
#include "kernels/load-inl.h"
#include "kernels/softmax-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls f(score vector, key of its first lane) for the panels [begin, end) of a row and stores what it returns.
template <class F>
HWY_INLINE void ForRow(float* s, int64_t begin, int64_t end, F f) {
  const DF d;
  for (int64_t p = begin; p < end; ++p) {
    for (int w = 0; w < 2; ++w) {
      float* at = s + p * kPanelScores + w * kLanes;
      hn::Store(f(hn::Load(d, at), p * kPanelKeys + w * kLanes), d, at);
    }
  }
}

HWY_INLINE void SoftcapRow(float* s, int64_t begin, int64_t end, float softcap) {
  const DF d;
  const VF cap = hn::Set(d, softcap), inverse = hn::Set(d, 1.0f / softcap);
  ForRow(s, begin, end, [&](VF x, int64_t) HWY_ATTR { return hn::Mul(cap, Tanh(d, hn::Mul(x, inverse))); });
}

// `distance`: key 0 of the block minus the position of the query.
HWY_INLINE void AlibiRow(float* s, int64_t begin, int64_t end, float slope, int64_t distance) {
  const DF d;
  const VF factor = hn::Set(d, slope), iota = hn::Iota(d, 0.0f);
  ForRow(s, begin, end, [&](VF x, int64_t key) HWY_ATTR {
    return hn::MulAdd(factor, hn::Add(hn::Set(d, static_cast<float>(distance + key)), iota), x);
  });
}

// `mask`: the row's element for key 0 of the block. Reads keys [first, last) only, the row's allowed ones.
template <class T>
HWY_INLINE void MaskRow(float* s, const T* mask, int64_t element, int64_t first, int64_t last) {
  const DF d;
  const VF excluded = hn::Set(d, kMinusInfinity);
  const int64_t begin = first / kPanelKeys, end = CeilDiv(last, kPanelKeys);
  ForRow(s, begin, end, [&](VF x, int64_t key) HWY_ATTR {
    VF add;
    if (element == 1 && key >= first && key + kLanes <= last) {
      add = LoadFloats(d, mask + key);
    } else {
      T some[kLanes] = {};
      for (int i = 0; i < kLanes; ++i) {
        if (key + i >= first && key + i < last) some[i] = mask[(key + i) * element];
      }
      add = LoadFloats(d, some);
    }
    return hn::IfThenElse(hn::Eq(add, excluded), excluded, hn::Add(x, add));
  });
}

HWY_INLINE void MaskRow(const RowView& mask, int64_t row, int64_t first_key, int64_t first, int64_t last, float* s) {
  const int64_t at = mask.Offset(row) + first_key * mask.element;
  switch (mask.dtype) {
    case DType::kF32: return MaskRow(s, static_cast<const float*>(mask.base) + at, mask.element, first, last);
    case DType::kBF16: return MaskRow(s, static_cast<const BF16*>(mask.base) + at, mask.element, first, last);
    case DType::kF16: return MaskRow(s, static_cast<const F16*>(mask.base) + at, mask.element, first, last);
    case DType::kBool: return MaskRow(s, static_cast<const uint8_t*>(mask.base) + at, mask.element, first, last);
  }
}

// All modifiers of row r of the tile that begins at `row`; excluded keys outside the row's limits come later.
HWY_NOINLINE inline void ModifyRows(const BlockArgs& args, const TileState& t, int64_t row, int rows, float* scores) {
  const Modifiers& m = *args.modifiers;
  for (int r = 0; r < rows; ++r) {
    float* s = scores + r * kPanelKeys;
    const int64_t begin = FirstPanel(t, r), end = LastPanel(t, r);
    if (m.softcap != 0) SoftcapRow(s, begin, end, m.softcap);
    if (m.slope != nullptr) AlibiRow(s, begin, end, m.slope[row + r], args.first_key - m.position[row + r]);
    if (m.mask.base != nullptr) MaskRow(m.mask, row + r, args.first_key, t.begin[r], t.end[r], s);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_MODIFY_INL_H_
