// Packing into the layouts that tile-inl.h reads; 16-bit inputs become f32 here.
#if defined(ATTENIO_SRC_KERNELS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTENIO_SRC_KERNELS_PACK_INL_H_
#undef ATTENIO_SRC_KERNELS_PACK_INL_H_
#else
#define ATTENIO_SRC_KERNELS_PACK_INL_H_
#endif

#include <cstdint>

#include "base/bits.h"
#include "base/math.h"
#include "hwy/highway.h"
#include "kernels/kernels.h"
#include "kernels/load-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four rows of four elements to four columns at out, `stride` apart.
template <class T>
HWY_INLINE void Transpose4x4(const T* const rows[4], int64_t at, float multiplier, float* out, int64_t stride) {
  const hn::FixedTag<float, 4> d;
  const auto m = hn::Set(d, multiplier);
  const auto a = hn::Mul(LoadFloats(d, rows[0] + at), m);
  const auto b = hn::Mul(LoadFloats(d, rows[1] + at), m);
  const auto c = hn::Mul(LoadFloats(d, rows[2] + at), m);
  const auto e = hn::Mul(LoadFloats(d, rows[3] + at), m);
  const auto ac_low = hn::InterleaveLower(d, a, c);
  const auto be_low = hn::InterleaveLower(d, b, e);
  const auto ac_high = hn::InterleaveUpper(d, a, c);
  const auto be_high = hn::InterleaveUpper(d, b, e);
  hn::StoreU(hn::InterleaveLower(d, ac_low, be_low), d, out);
  hn::StoreU(hn::InterleaveUpper(d, ac_low, be_low), d, out + stride);
  hn::StoreU(hn::InterleaveLower(d, ac_high, be_high), d, out + 2 * stride);
  hn::StoreU(hn::InterleaveUpper(d, ac_high, be_high), d, out + 3 * stride);
}

// Rows to panels [dim][Width], the last one filled up with zeros: K (Width keys) and Q (Width rows).
template <class T, int Width>
HWY_NOINLINE void PackColumns(const PackArgs& args) {
  const RowView& source = args.source;
  float* panel = static_cast<float*>(args.packed);
  for (int64_t first = 0; first < args.rows; first += Width, panel += args.dim * Width) {
    const int64_t rows = args.rows - first < Width ? args.rows - first : Width;
    int64_t r = 0;
    for (; source.element == 1 && r + 4 <= rows; r += 4) {
      const T* const four[4] = {source.Row<T>(first + r), source.Row<T>(first + r + 1), source.Row<T>(first + r + 2),
                                source.Row<T>(first + r + 3)};
      int64_t i = 0;
      for (; i + 4 <= args.dim; i += 4) Transpose4x4(four, i, args.multiplier, panel + i * Width + r, Width);
      for (; i < args.dim; ++i) {
        for (int64_t j = 0; j < 4; ++j) panel[i * Width + r + j] = ToFloat(four[j][i]) * args.multiplier;
      }
    }
    for (; r < rows; ++r) {
      const T* row = source.Row<T>(first + r);
      for (int64_t i = 0; i < args.dim; ++i) panel[i * Width + r] = ToFloat(row[i * source.element]) * args.multiplier;
    }
    for (; r < Width; ++r) {
      for (int64_t i = 0; i < args.dim; ++i) panel[i * Width + r] = 0;
    }
  }
}

// One row of V to its panels: `vectors` vectors, the dims beyond `dim` filled with zeros. Returns the sum of x * 0 per lane:
// 0 if everything is finite, else NaN.
template <class T>
HWY_INLINE VF PackVRow(const T* row, int64_t element, int64_t dim, int64_t vectors, int64_t panel_stride, int64_t key,
                       float* packed) {
  const DF d;
  VF check = hn::Zero(d);
  for (int64_t w = 0; w < vectors; ++w) {
    const int64_t width = w % 2 == 0 && w + 1 == vectors ? kLanes : kPanelDims;
    const int64_t first = w * kLanes;
    VF x;
    if (element == 1 && first + kLanes <= dim) {
      x = LoadFloats(d, row + first);
    } else {
      HWY_ALIGN float rest[kLanes] = {};
      const int64_t count = dim - first < kLanes ? dim - first : kLanes;
      for (int64_t i = 0; i < count; ++i) rest[i] = ToFloat(row[(first + i) * element]);
      x = hn::Load(d, rest);
    }
    check = hn::MulAdd(x, hn::Zero(d), check);
    hn::Store(x, d, packed + w / 2 * panel_stride + key * width + w % 2 * kLanes);
  }
  return check;
}

template <class T>
HWY_NOINLINE bool PackVRows(const PackArgs& args) {
  const DF d;
  float* packed = static_cast<float*>(args.packed);
  const int64_t keys = RoundUp(args.rows, kPanelKeys);
  const int64_t vectors = CeilDiv(args.dim, kLanes);
  VF check = hn::Zero(d);
  for (int64_t j = 0; j < args.rows; ++j) {
    check = hn::Add(
        check, PackVRow(args.source.Row<T>(j), args.source.element, args.dim, vectors, keys * kPanelDims, j, packed));
  }
  for (int64_t j = args.rows; j < keys; ++j) {
    PackVRow(static_cast<const T*>(nullptr), 0, 0, vectors, keys * kPanelDims, j, packed);
  }
  return hn::AllTrue(d, hn::Eq(check, hn::Zero(d)));
}

inline void PackQ(const PackArgs& args) {
  WithFloatType(args.source.dtype, [&](auto* t) { PackColumns<std::remove_cv_t<std::remove_pointer_t<decltype(t)>>, kTileRows>(args); });
}

inline void PackK(const PackArgs& args) {
  WithFloatType(args.source.dtype, [&](auto* t) { PackColumns<std::remove_cv_t<std::remove_pointer_t<decltype(t)>>, kPanelKeys>(args); });
}

inline bool PackV(const PackArgs& args) {
  return WithFloatType(args.source.dtype,
                       [&](auto* t) { return PackVRows<std::remove_cv_t<std::remove_pointer_t<decltype(t)>>>(args); });
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_PACK_INL_H_
