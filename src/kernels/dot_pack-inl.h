// Packing of bf16 into the layouts that dot_tile-inl.h reads: bits are moved, never converted.
#if defined(ATTENIO_SRC_KERNELS_DOT_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTENIO_SRC_KERNELS_DOT_PACK_INL_H_
#undef ATTENIO_SRC_KERNELS_DOT_PACK_INL_H_
#else
#define ATTENIO_SRC_KERNELS_DOT_PACK_INL_H_
#endif

#include <cstdint>

#include "base/math.h"
#include "hwy/highway.h"
#include "kernels/dot_tile-inl.h"
#include "kernels/kernels.h"
#include "kernels/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four pairs of four rows to four columns at out, `stride` apart.
HWY_INLINE void TransposePairs4x4(const BF16* const rows[4], int64_t at, uint32_t* out, int64_t stride) {
  const hn::FixedTag<uint32_t, 4> d;
  const auto load = [&](int r) HWY_ATTR { return hn::LoadU(d, reinterpret_cast<const uint32_t*>(rows[r] + at)); };
  const auto a = load(0), b = load(1), c = load(2), e = load(3);
  const auto ac_low = hn::InterleaveLower(d, a, c), be_low = hn::InterleaveLower(d, b, e);
  const auto ac_high = hn::InterleaveUpper(d, a, c), be_high = hn::InterleaveUpper(d, b, e);
  hn::StoreU(hn::InterleaveLower(d, ac_low, be_low), d, out);
  hn::StoreU(hn::InterleaveUpper(d, ac_low, be_low), d, out + stride);
  hn::StoreU(hn::InterleaveLower(d, ac_high, be_high), d, out + 2 * stride);
  hn::StoreU(hn::InterleaveUpper(d, ac_high, be_high), d, out + 3 * stride);
}

// Elements 2 i and 2 i + 1 of a row, zeros beyond `dim`.
HWY_INLINE uint32_t PairOf(const BF16* row, int64_t element, int64_t i, int64_t dim) {
  if (2 * i >= dim) return 0;
  const uint32_t low = row[2 * i * element].bits;
  const uint32_t high = 2 * i + 1 < dim ? row[(2 * i + 1) * element].bits : 0;
  return low | high << 16;
}

// Rows to panels [pairs of dims][Width], filled up with zeros: K (Width keys) and Q (Width rows). Pairs: a multiple of Multiple.
template <int Width, int Multiple>
HWY_NOINLINE void PackPairColumns(const PackArgs& args) {
  const RowView& source = args.source;
  const int64_t pairs = RoundUp(CeilDiv(args.dim, 2), Multiple);
  auto* panel = static_cast<uint32_t*>(args.packed);
  for (int64_t first = 0; first < args.rows; first += Width, panel += pairs * Width) {
    const int64_t rows = args.rows - first < Width ? args.rows - first : Width;
    int64_t r = 0;
    for (; source.element == 1 && r + 4 <= rows; r += 4) {
      const BF16* const four[4] = {source.Row<BF16>(first + r), source.Row<BF16>(first + r + 1),
                                   source.Row<BF16>(first + r + 2), source.Row<BF16>(first + r + 3)};
      int64_t i = 0;
      for (; 2 * i + 8 <= args.dim; i += 4) TransposePairs4x4(four, 2 * i, panel + i * Width + r, Width);
      for (; i < pairs; ++i) {
        for (int64_t j = 0; j < 4; ++j) panel[i * Width + r + j] = PairOf(four[j], 1, i, args.dim);
      }
    }
    for (; r < rows; ++r) {
      const BF16* row = source.Row<BF16>(first + r);
      for (int64_t i = 0; i < pairs; ++i) panel[i * Width + r] = PairOf(row, source.element, i, args.dim);
    }
    for (; r < Width; ++r) {
      for (int64_t i = 0; i < pairs; ++i) panel[i * Width + r] = 0;
    }
  }
}

// 16 elements of a row of V from `first` on as lanes of 32 bits, zeros beyond `dim`; row == nullptr: zeros.
HWY_INLINE VPair LoadWide(const BF16* row, int64_t element, int64_t first, int64_t dim) {
  const DPair d;
  if (row == nullptr) return hn::Zero(d);
  if (element == 1 && first + kLanes <= dim) return LoadBits16(DF(), &row[first].bits);
  HWY_ALIGN uint16_t rest[kLanes] = {};
  const int64_t count = dim - first < kLanes ? dim - first : kLanes;
  for (int64_t i = 0; i < count; ++i) rest[i] = row[(first + i) * element].bits;
  return LoadBits16(DF(), rest);
}

// Rows of V to panels [pairs of keys][2 vectors of dims]. Returns whether every element is finite.
inline HWY_NOINLINE bool PackPairRows(const PackArgs& args) {
  const DPair d;
  const hn::Repartition<uint16_t, DPair> d16;
  const RowView& source = args.source;
  auto* packed = static_cast<uint32_t*>(args.packed);
  const int64_t keys = RoundUp(args.rows, kPanelKeys), vectors = CeilDiv(args.dim, kLanes);
  auto largest = hn::Zero(d16);
  for (int64_t j = 0; j < keys; j += 2) {
    const BF16* even = j < args.rows ? source.Row<BF16>(j) : nullptr;
    const BF16* odd = j + 1 < args.rows ? source.Row<BF16>(j + 1) : nullptr;
    for (int64_t w = 0; w < vectors; ++w) {
      const int64_t width = w % 2 == 0 && w + 1 == vectors ? kLanes : kPanelDims;
      const VPair x = LoadWide(even, source.element, w * kLanes, args.dim);
      const VPair y = LoadWide(odd, source.element, w * kLanes, args.dim);
      const VPair pairs = hn::Or(x, hn::ShiftLeft<16>(y));
      largest = hn::Max(largest, hn::And(hn::BitCast(d16, pairs), hn::Set(d16, uint16_t{0x7fff})));
      hn::Store(pairs, d, packed + w / 2 * (keys / 2 * kPanelDims) + j / 2 * width + w % 2 * kLanes);
    }
  }
  return hn::AllTrue(d16, hn::Lt(largest, hn::Set(d16, uint16_t{0x7f80})));
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_DOT_PACK_INL_H_
