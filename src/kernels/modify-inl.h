// Score modifiers of one row of a tile, in the order of the operator: softcap, ALiBi, mask.
#if defined(ATTENIO_SRC_KERNELS_MODIFY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTENIO_SRC_KERNELS_MODIFY_INL_H_
#undef ATTENIO_SRC_KERNELS_MODIFY_INL_H_
#else
#define ATTENIO_SRC_KERNELS_MODIFY_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/kernels.h"
#include "kernels/load-inl.h"
#include "kernels/softmax-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What one row needs for all its modifiers.
struct RowModifiers {
  float softcap, inverse_softcap;  // 0: none
  bool alibi;
  float slope;
  int64_t distance;   // key 0 of the block minus the position of the query
  const void* mask;   // the row's element for key 0 of the block
  int64_t element;
  int64_t first, last;  // allowed keys of the block
};

// Mask elements one by one. Not inlined: GCC would compute all the addresses before every vector, a fifth of the pass.
template <class T>
HWY_NOINLINE void GatherMask(const RowModifiers& m, int64_t key, T* some) {
  const T* mask = static_cast<const T*>(m.mask);
  for (int64_t i = 0; i < kLanes; ++i) {
    if (key + i >= m.first && key + i < m.last) some[i] = mask[(key + i) * m.element];
  }
}

// What a mask adds to kLanes keys from `key` on. Reads keys [first, last) only.
template <class T>
HWY_INLINE VF MaskVector(const RowModifiers& m, int64_t key) {
  const DF d;
  const T* mask = static_cast<const T*>(m.mask);
  if (HWY_LIKELY(m.element == 1 && key >= m.first && key + kLanes <= m.last)) return LoadFloats(d, mask + key);
  T some[kLanes] = {};
  GatherMask(m, key, some);
  return LoadFloats(d, some);
}

// Modifies and clips the scores of one row and takes their maximum per lane, in one pass. T: element type of the mask, or void.
template <class T>
HWY_INLINE void ModifyRow(const RowModifiers& m, TileState& t, int r, float* s) {
  const DF d;
  const VF excluded = hn::Set(d, kMinusInfinity), iota = hn::Iota(d, 0.0f);
  const VF cap = hn::Set(d, m.softcap), inverse_cap = hn::Set(d, m.inverse_softcap), slope = hn::Set(d, m.slope);
  VF max0 = excluded, max1 = excluded;
  const auto modify = [&](float* at, int64_t key) HWY_ATTR {
    VF x = hn::Load(d, at);
    if (m.softcap != 0) x = hn::Mul(cap, Tanh(d, hn::Mul(x, inverse_cap)));
    if (m.alibi) x = hn::MulAdd(slope, hn::Add(hn::Set(d, static_cast<float>(m.distance + key)), iota), x);
    if constexpr (!std::is_void_v<T>) {
      const VF add = MaskVector<T>(m, key);
      x = hn::IfThenElse(hn::Eq(add, excluded), excluded, hn::Add(x, add));
    }
    hn::Store(x, d, at);
    return x;
  };
  const int64_t last = LastPanel(t, r);
  for (int64_t p = FirstPanel(t, r); p < last; ++p) {
    float* panel = s + p * t.panel_scores;
    const int64_t key = p * kPanelKeys;
    VF x0 = modify(panel, key), x1 = modify(panel + kLanes, key + kLanes);
    if (key < m.first || key + kPanelKeys > m.last) {
      ClipPanel(panel, std::max<int64_t>(m.first - key, 0), std::min<int64_t>(m.last - key, kPanelKeys));
      x0 = hn::Load(d, panel);
      x1 = hn::Load(d, panel + kLanes);
    }
    max0 = hn::Max(max0, x0);
    max1 = hn::Max(max1, x1);
  }
  hn::Store(hn::Max(max0, max1), d, t.partial + r * kLanes);
}

// All modifiers of the rows of a tile that begins at `row`; leaves their maxima in t.partial.
template <class T>
HWY_NOINLINE void ModifyRows(const BlockArgs& args, TileState& t, int64_t row, int rows, float* s) {
  const Modifiers& m = *args.modifiers;
  RowModifiers one = {};
  one.softcap = m.softcap;
  one.inverse_softcap = m.softcap != 0 ? 1.0f / m.softcap : 0.0f;
  one.alibi = m.slope != nullptr;
  one.element = m.mask.element;
  for (int r = 0; r < rows; ++r, s += kPanelKeys) {
    if (one.alibi) {
      one.slope = m.slope[row + r];
      one.distance = args.first_key - m.position[row + r];
    }
    if constexpr (!std::is_void_v<T>) one.mask = m.mask.Row<T>(row + r) + args.first_key * m.mask.element;
    one.first = t.begin[r];
    one.last = t.end[r];
    ModifyRow<T>(one, t, r, s);
  }
}

HWY_INLINE void ModifyTile(const BlockArgs& args, TileState& t, int64_t row, int rows, float* s) {
  const RowView& mask = args.modifiers->mask;
  if (mask.base == nullptr) return ModifyRows<void>(args, t, row, rows, s);
  switch (mask.dtype) {
    case DType::kF32: return ModifyRows<float>(args, t, row, rows, s);
    case DType::kBF16: return ModifyRows<BF16>(args, t, row, rows, s);
    case DType::kF16: return ModifyRows<F16>(args, t, row, rows, s);
    case DType::kBool: return ModifyRows<uint8_t>(args, t, row, rows, s);
  }
}

// Where QK finds mask lines to prefetch for the softmax that follows it: address of key 0 of the block per row.
HWY_INLINE void SetMaskRows(const BlockArgs& args, TileState& t, int64_t row, int rows) {
  const RowView& mask = args.modifiers->mask;
  const int64_t bytes = ElementBytes(mask.dtype);
  for (int r = 0; r < rows; ++r) {
    t.mask[r] = static_cast<const char*>(mask.base) + (mask.Offset(row + r) + args.first_key * mask.element) * bytes;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_MODIFY_INL_H_
