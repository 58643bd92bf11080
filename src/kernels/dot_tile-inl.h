// The two products of a register tile by bf16 pairs; the tile and the panels of scores are those of tile-inl.h.
//
// Packed operands, in pairs of bf16 as 32-bit words: Q tiles [pairs of dims][kTileRows], K panels [pairs of dims][kPanelKeys],
// V panels [pairs of keys][2 vectors of dims]. Probabilities lie in the first half of the f32 row that they were made from,
// as 16 pairs. The arithmetic of a row does not depend on the tile it is in.
#if defined(ATTENIO_SRC_KERNELS_DOT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTENIO_SRC_KERNELS_DOT_TILE_INL_H_
#undef ATTENIO_SRC_KERNELS_DOT_TILE_INL_H_
#else
#define ATTENIO_SRC_KERNELS_DOT_TILE_INL_H_
#endif

#include <cstdint>
#include <limits>
#include <utility>

#include "hwy/highway.h"
#include "kernels/dot-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(kLanes == 16 && kPanelKeys == 32 && kPanelDims == 32);

// Probabilities as bf16 pairs, in the first half of the panel's row. Sums are taken of the unrounded ones: the error of an
// output stays below u(bf16) A, half of what the tolerance rule allows, and the LSE keeps the accuracy of f32, which sums of
// rounded ones would not.
struct KeepPairs {
  HWY_INLINE void operator()(VF p0, VF p1, float* at) const {
    hn::Store(RoundPairs(p0, p1), DPair(), reinterpret_cast<uint32_t*>(at));
  }
};

// The dot product takes 6 cycles: fewer than 6 accumulators would wait for it.
constexpr int DotVectorsAtOnce(int rows) { return rows <= 3 ? 4 : 2; }

struct DotQkArgs {
  const uint32_t* q;
  const uint32_t* k;
  float* s;
  int64_t pairs;
  float scale;         // of the scores: bf16 q times a factor would round again
  int64_t begin, end;  // key panels
  float* max;          // as in QkArgs, from here on
  const char* const* mask;
  int64_t mask_panel_bytes;
};

// Scores of `Rows` rows against `W / 2` panels from `panel` on.
template <int Rows, int W>
HWY_INLINE void DotQkPanels(const DotQkArgs& args, int64_t panel) {
  const DF d;
  const DPair dp;
  const int64_t stride = args.pairs * kPanelKeys;
  const uint32_t* HWY_RESTRICT q = args.q;
  const uint32_t* HWY_RESTRICT k = args.k + panel * stride;
  VF acc[Rows][W];
  HWY_UNROLL(16)
  for (int r = 0; r < Rows; ++r) {
    HWY_UNROLL(4)
    for (int w = 0; w < W; ++w) acc[r][w] = hn::Zero(d);
  }
  HWY_UNROLL(2)
  for (int64_t i = 0; i < args.pairs; ++i) {
    VPair b[W];
    HWY_UNROLL(4)
    for (int w = 0; w < W; ++w) b[w] = hn::Load(dp, k + (w / 2) * stride + i * kPanelKeys + (w % 2) * kLanes);
    HWY_UNROLL(16)
    for (int r = 0; r < Rows; ++r) {
      const VPair a = hn::Set(dp, q[i * kTileRows + r]);
      HWY_UNROLL(4)
      for (int w = 0; w < W; ++w) acc[r][w] = DotAdd(acc[r][w], a, b[w]);
    }
  }
  const VF scale = hn::Set(d, args.scale);
  float* HWY_RESTRICT s = args.s + panel * kPanelScores;
  HWY_UNROLL(16)
  for (int r = 0; r < Rows; ++r) {
    VF row_max = hn::Load(d, args.max + r * kLanes);
    HWY_UNROLL(4)
    for (int w = 0; w < W; ++w) {
      const VF score = hn::Mul(acc[r][w], scale);
      hn::Store(score, d, s + (w / 2) * kPanelScores + r * kPanelKeys + (w % 2) * kLanes);
      row_max = hn::Max(row_max, score);
    }
    hn::Store(row_max, d, args.max + r * kLanes);
  }
}

template <int Rows>
HWY_NOINLINE void DotQkRows(const DotQkArgs& args) {
  const DF d;
  for (int r = 0; r < Rows; ++r) hn::Store(hn::Set(d, -std::numeric_limits<float>::infinity()), d, args.max + r * kLanes);
  constexpr int kAtOnce = DotVectorsAtOnce(Rows) / 2;
  int64_t p = args.begin;
  for (; p + kAtOnce <= args.end; p += kAtOnce) {
    for (int64_t i = p; args.mask != nullptr && i < p + kAtOnce; ++i) PrefetchMask(args, i, Rows);
    DotQkPanels<Rows, 2 * kAtOnce>(args, p);
  }
  for (; p < args.end; ++p) DotQkPanels<Rows, 2>(args, p);
}

struct DotPvArgs {
  const float* p;  // panels of the block, rows as pairs of bf16
  const uint32_t* v;
  const float* alpha;  // per row: factor of the old accumulators
  int64_t p_stride;    // floats between the panels of p
  float* out;
  int64_t panel_stride;  // words between the panels of V
  int64_t begin, end;    // key panels
  int64_t vectors;       // of dims
  int64_t out_stride;
};

// W vectors of dims of `Rows` rows; the block's sum starts from zero and is added at the end, as in tile-inl.h.
template <int Rows, int W>
HWY_INLINE void DotPvVectors(const DotPvArgs& args, int64_t vector) {
  const DF d;
  const DPair dp;
  constexpr int kWidth = W == 1 ? kLanes : kPanelDims;
  VF acc[Rows][W];
  HWY_UNROLL(16)
  for (int r = 0; r < Rows; ++r) {
    HWY_UNROLL(4)
    for (int w = 0; w < W; ++w) acc[r][w] = hn::Zero(d);
  }
  constexpr int kPairs = kPanelKeys / 2;
  const int64_t panel_stride = args.panel_stride;
  const uint32_t* HWY_RESTRICT v = args.v + vector / 2 * panel_stride + args.begin * kPairs * kWidth;
  for (int64_t panel = args.begin; panel < args.end; ++panel) {
    const float* HWY_RESTRICT p = args.p + panel * kPanelScores;
    HWY_UNROLL(2)
    for (int64_t j = 0; j < kPairs; ++j) {
      VPair b[W];
      HWY_UNROLL(4)
      for (int w = 0; w < W; ++w) b[w] = hn::Load(dp, v + (w / 2) * panel_stride + (w % 2) * kLanes);
      HWY_UNROLL(16)
      for (int r = 0; r < Rows; ++r) {
        const VPair a = hn::BitCast(dp, hn::Set(d, p[r * kPanelKeys + j]));
        HWY_UNROLL(4)
        for (int w = 0; w < W; ++w) acc[r][w] = DotAdd(acc[r][w], a, b[w]);
      }
      v += kWidth;
    }
  }
  float* HWY_RESTRICT out = args.out + vector * kLanes;
  HWY_UNROLL(16)
  for (int r = 0; r < Rows; ++r) {
    const VF alpha = hn::Set(d, args.alpha[r]);
    HWY_UNROLL(4)
    for (int w = 0; w < W; ++w) {
      float* o = out + r * args.out_stride + w * kLanes;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, o), alpha, acc[r][w]), d, o);
    }
  }
}

template <int Rows>
HWY_NOINLINE void DotPvRows(const DotPvArgs& args) {
  constexpr int kAtOnce = DotVectorsAtOnce(Rows);
  int64_t w = 0;
  for (; w + kAtOnce <= args.vectors; w += kAtOnce) DotPvVectors<Rows, kAtOnce>(args, w);
  if constexpr (kAtOnce > 2) {
    for (; w + 2 <= args.vectors; w += 2) DotPvVectors<Rows, 2>(args, w);
  }
  if (w < args.vectors) DotPvVectors<Rows, 1>(args, w);
}

// The same for V with a NaN or infinity in it, key by key in f32: a probability of 0 skips its key.
inline HWY_NOINLINE void DotPvCareful(const DotPvArgs& args, int rows) {
  const DF d;
  const DPair dp;
  for (int64_t w = 0; w < args.vectors; ++w) {
    const int64_t width = w % 2 == 0 && w + 1 == args.vectors ? kLanes : kPanelDims;
    const uint32_t* v = args.v + w / 2 * args.panel_stride + w % 2 * kLanes;
    for (int r = 0; r < rows; ++r) {
      VF acc = hn::Zero(d);
      for (int64_t key = args.begin * kPanelKeys; key < args.end * kPanelKeys; ++key) {
        const auto* row = reinterpret_cast<const BF16*>(args.p + key / kPanelKeys * args.p_stride + r * kPanelKeys);
        const VF p = hn::BitCast(d, hn::Set(dp, uint32_t{row[key % kPanelKeys].bits} << 16));
        if (hn::AllTrue(d, hn::Eq(p, hn::Zero(d)))) continue;
        const VPair pair = hn::Load(dp, v + key / 2 * width);
        const VPair bits = key % 2 == 0 ? hn::ShiftLeft<16>(pair) : hn::And(pair, hn::Set(dp, 0xffff0000u));
        acc = hn::MulAdd(p, hn::BitCast(d, bits), acc);
      }
      float* o = args.out + r * args.out_stride + w * kLanes;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, o), hn::Set(d, args.alpha[r]), acc), d, o);
    }
  }
}

// Indexed by the rows of the tile, less one.
template <int... Row>
constexpr auto DotTables(std::integer_sequence<int, Row...>) {
  struct Tables {
    void (*qk[sizeof...(Row)])(const DotQkArgs&);
    void (*pv[sizeof...(Row)])(const DotPvArgs&);
  };
  return Tables{{DotQkRows<Row + 1>...}, {DotPvRows<Row + 1>...}};
}
constexpr auto kDot = DotTables(std::make_integer_sequence<int, kTileRows>());

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_DOT_TILE_INL_H_
