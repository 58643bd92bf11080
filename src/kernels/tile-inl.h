// The two products of a register tile: S = Q K^T and O = alpha O + P V, rows x 2 vectors at a time.
//
// Packed operands: Q tiles [dim][kTileRows], K panels [dim][kPanelKeys], V panels [key][2 vectors of dims]; S and P are kept
// in panels [kTileRows][kPanelKeys], so that every address of the inner loops is a pointer and a constant. Lanes are keys
// (QK) and dims (PV); rows are broadcast. A row's operations are the same ones in the same order whatever tile it is in.
#if defined(ATTENIO_SRC_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTENIO_SRC_KERNELS_TILE_INL_H_
#undef ATTENIO_SRC_KERNELS_TILE_INL_H_
#else
#define ATTENIO_SRC_KERNELS_TILE_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));

// Accumulators, two vectors of the streamed operand and a broadcast must fit the register file: 14 x 2 + 3 of 32, 6 x 2 + 3
// of 16.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64
constexpr int kTileRows = 14;
#else
constexpr int kTileRows = 6;
#endif
constexpr int kPanelKeys = 2 * kLanes;
constexpr int kPanelDims = 2 * kLanes;
constexpr int kPanelScores = kTileRows * kPanelKeys;

// Few rows take two panels at once: with one they would wait for the latency of the additions.
constexpr int VectorsAtOnce(int rows) { return rows <= 3 && 4 * rows <= 2 * kTileRows ? 4 : 2; }

// Scores of `Rows` rows against `W / 2` panels, next to each other in k and s; max[row][lane] is raised to them.
template <int Rows, int W>
HWY_INLINE void QkPanels(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k, int64_t dim, float* HWY_RESTRICT s,
                         float* HWY_RESTRICT max) {
  const DF d;
  VF acc[Rows][W];
  HWY_UNROLL(16)
  for (int r = 0; r < Rows; ++r) {
    HWY_UNROLL(4)
    for (int w = 0; w < W; ++w) acc[r][w] = hn::Zero(d);
  }
  const int64_t panel = dim * kPanelKeys;
  HWY_UNROLL(2)
  for (int64_t i = 0; i < dim; ++i) {
    VF b[W];
    HWY_UNROLL(4)
    for (int w = 0; w < W; ++w) b[w] = hn::Load(d, k + (w / 2) * panel + i * kPanelKeys + (w % 2) * kLanes);
    HWY_UNROLL(16)
    for (int r = 0; r < Rows; ++r) {
      const VF a = hn::Set(d, q[i * kTileRows + r]);
      HWY_UNROLL(4)
      for (int w = 0; w < W; ++w) acc[r][w] = hn::MulAdd(a, b[w], acc[r][w]);
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < Rows; ++r) {
    VF row_max = hn::Load(d, max + r * kLanes);
    HWY_UNROLL(4)
    for (int w = 0; w < W; ++w) {
      hn::Store(acc[r][w], d, s + (w / 2) * kPanelScores + r * kPanelKeys + (w % 2) * kLanes);
      row_max = hn::Max(row_max, acc[r][w]);
    }
    hn::Store(row_max, d, max + r * kLanes);
  }
}

struct QkArgs {
  const float* q;
  const float* k;
  int64_t dim;
  int64_t begin, end;  // key panels
  float* s;            // score panels of the block
  float* max;          // [row][lane]: maxima over the panels
  const char* const* mask;   // per row: where its mask begins, or nullptr
  int64_t mask_panel_bytes;  // of a row's mask for one panel
};

// Asks for the masks of panel p. Rows of a mask lie pages apart, where hardware does not prefetch; spread over the panels of QK
// the lines arrive for nothing. An address past the end is harmless.
template <class Args>
HWY_INLINE void PrefetchMask(const Args& args, int64_t p, int rows) {
  for (int r = 0; r < rows; ++r) {
    const char* at = args.mask[r] + p * args.mask_panel_bytes;
    for (int64_t line = 0; line < args.mask_panel_bytes; line += 64) __builtin_prefetch(at + line);
  }
}

// Scores of `Rows` rows against the panels [begin, end).
template <int Rows>
HWY_NOINLINE void QkRows(const QkArgs& args) {
  const DF d;
  float* max = args.max;
  for (int r = 0; r < Rows; ++r) hn::Store(hn::Set(d, -std::numeric_limits<float>::infinity()), d, max + r * kLanes);
  const float* q = args.q;
  const float* k = args.k;
  const int64_t dim = args.dim, end = args.end;
  float* s = args.s;
  constexpr int kAtOnce = VectorsAtOnce(Rows) / 2;
  int64_t p = args.begin;
  for (; p + kAtOnce <= end; p += kAtOnce) {
    for (int64_t i = p; args.mask != nullptr && i < p + kAtOnce; ++i) PrefetchMask(args, i, Rows);
    QkPanels<Rows, 2 * kAtOnce>(q, k + p * dim * kPanelKeys, dim, s + p * kPanelScores, max);
  }
  for (; p < end; ++p) QkPanels<Rows, 2>(q, k + p * dim * kPanelKeys, dim, s + p * kPanelScores, max);
}

// What PvRows works on. V: panels of all block keys, `panel_stride` elements apart.
struct PvArgs {
  const float* p;      // score panels of the block, as probabilities
  const float* v;
  const float* alpha;  // per row: factor of the old accumulators
  float* out;
  int64_t panel_stride;
  int64_t begin, end;  // key panels
  int64_t vectors;     // of dims
  int64_t out_stride;
};

// W vectors of dims (whole panels, or one vector: the last half panel) of `Rows` rows. The block's sum starts from zero and
// is added at the end: one long sum over all keys would lose 5 to 20 times the accuracy on rows like those with a sink.
template <int Rows, int W>
HWY_INLINE void PvVectors(const PvArgs& args, int64_t vector) {
  const DF d;
  constexpr int kWidth = W == 1 ? kLanes : kPanelDims;  // of a V row in its panel
  VF acc[Rows][W];
  HWY_UNROLL(16)
  for (int r = 0; r < Rows; ++r) {
    HWY_UNROLL(4)
    for (int w = 0; w < W; ++w) acc[r][w] = hn::Zero(d);
  }
  const float* HWY_RESTRICT v = args.v + vector / 2 * args.panel_stride + args.begin * kPanelKeys * kWidth;
  const int64_t panel_stride = args.panel_stride;
  for (int64_t panel = args.begin; panel < args.end; ++panel) {
    const float* HWY_RESTRICT p = args.p + panel * kPanelScores;
    HWY_UNROLL(2)
    for (int64_t j = 0; j < kPanelKeys; ++j) {
      VF b[W];
      HWY_UNROLL(4)
      for (int w = 0; w < W; ++w) b[w] = hn::Load(d, v + (w / 2) * panel_stride + (w % 2) * kLanes);
      HWY_UNROLL(16)
      for (int r = 0; r < Rows; ++r) {
        const VF a = hn::Set(d, p[r * kPanelKeys + j]);
        HWY_UNROLL(4)
        for (int w = 0; w < W; ++w) acc[r][w] = hn::MulAdd(a, b[w], acc[r][w]);
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
HWY_NOINLINE void PvRows(const PvArgs& args) {
  constexpr int kAtOnce = VectorsAtOnce(Rows);
  int64_t w = 0;
  for (; w + kAtOnce <= args.vectors; w += kAtOnce) PvVectors<Rows, kAtOnce>(args, w);
  if constexpr (kAtOnce > 2) {
    for (; w + 2 <= args.vectors; w += 2) PvVectors<Rows, 2>(args, w);
  }
  if (w < args.vectors) PvVectors<Rows, 1>(args, w);
}

// The same for V with a NaN or infinity in it: a probability of 0 skips its key instead of multiplying it.
HWY_NOINLINE inline void PvCareful(const PvArgs& args, int rows) {
  const DF d;
  for (int64_t w = 0; w < args.vectors; ++w) {
    const bool half = w % 2 == 0 && w + 1 == args.vectors;
    const int64_t width = half ? kLanes : kPanelDims;
    const float* v = args.v + w / 2 * args.panel_stride + w % 2 * kLanes;
    for (int r = 0; r < rows; ++r) {
      VF acc = hn::Zero(d);
      for (int64_t key = args.begin * kPanelKeys; key < args.end * kPanelKeys; ++key) {
        const float p = args.p[key / kPanelKeys * kPanelScores + r * kPanelKeys + key % kPanelKeys];
        if (p != 0) acc = hn::MulAdd(hn::Set(d, p), hn::Load(d, v + key * width), acc);
      }
      float* o = args.out + r * args.out_stride + w * kLanes;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, o), hn::Set(d, args.alpha[r]), acc), d, o);
    }
  }
}

using QkFunction = void (*)(const QkArgs&);
using PvFunction = void (*)(const PvArgs&);

// Indexed by the rows of the tile.
constexpr QkFunction kQkRows[] = {nullptr,   QkRows<1>, QkRows<2>, QkRows<3>, QkRows<4>, QkRows<5>, QkRows<6>,
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64
                                  QkRows<7>, QkRows<8>, QkRows<9>, QkRows<10>, QkRows<11>, QkRows<12>, QkRows<13>, QkRows<14>,
#endif
};
constexpr PvFunction kPvRows[] = {nullptr,   PvRows<1>, PvRows<2>, PvRows<3>, PvRows<4>, PvRows<5>, PvRows<6>,
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64
                                  PvRows<7>, PvRows<8>, PvRows<9>, PvRows<10>, PvRows<11>, PvRows<12>, PvRows<13>, PvRows<14>,
#endif
};
static_assert(sizeof(kQkRows) / sizeof(kQkRows[0]) == kTileRows + 1 && sizeof(kPvRows) / sizeof(kPvRows[0]) == kTileRows + 1);

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_TILE_INL_H_
