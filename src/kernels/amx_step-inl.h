// One strip of rows against one packed key block with tiles: 32 rows x 32 keys (dims) by 2 x 2 tiles, so that a product takes
// one load. Products go through memory: S panels [32 rows][kPanelKeys] that the shared softmax reads, with the probabilities as
// bf16 pairs in the first half of a row, which is a tile of 16 rows with a stride of 128 bytes. Packed K and V are those of
// dot_pack-inl.h (K with dims filled up to 32); Q is [32 dims][32 rows][32 dims of a row].
#if defined(ATTENIO_SRC_KERNELS_AMX_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTENIO_SRC_KERNELS_AMX_STEP_INL_H_
#undef ATTENIO_SRC_KERNELS_AMX_STEP_INL_H_
#else
#define ATTENIO_SRC_KERNELS_AMX_STEP_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/math.h"
#include "hwy/highway.h"
#include "kernels/amx_tile.h"
#include "kernels/dot_pack-inl.h"
#include "kernels/dot_tile-inl.h"
#include "kernels/step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kAmxRows = 32;
constexpr int kAmxDims = 32;  // that one tile of Q or K holds
constexpr int64_t kAmxPanelScores = kAmxRows * kPanelKeys + kLanes;  // a line more: panels at 4 KiB would alias
constexpr int64_t kRowBytes = kPanelKeys * 4;  // of a row of S, of 32 keys of K, of 32 dims of V
static_assert(kAmxRows <= kStateRows);

// Loads of the 2 (rows 0-15, 16-31) x 2 (columns 0-15, 16-31) blocking: A in tiles 4 and 5, B in 6 and 7, C in 0..3 = 2 m + n.
template <class Tiles, int kM, int kN>
HWY_INLINE void ZeroTiles() {
  Tiles::template Zero<0>();
  if constexpr (kN == 2) Tiles::template Zero<1>();
  if constexpr (kM == 2) Tiles::template Zero<2>();
  if constexpr (kM == 2 && kN == 2) Tiles::template Zero<3>();
}

// C += A B for A rows `a_stride` bytes apart and B rows (pairs) `b_stride` bytes apart.
template <class Tiles, int kM, int kN>
HWY_INLINE void MultiplyTiles(const char* a, int64_t a_stride, const char* b, int64_t b_stride) {
  Tiles::template Load<4>(a, a_stride);
  Tiles::template Load<6>(b, b_stride);
  Tiles::template Dot<0, 4, 6>();
  if constexpr (kN == 2) {
    Tiles::template Load<7>(b + 64, b_stride);
    Tiles::template Dot<1, 4, 7>();
  }
  if constexpr (kM == 2) {
    Tiles::template Load<5>(a + 16 * a_stride, a_stride);
    Tiles::template Dot<2, 5, 6>();
    if constexpr (kN == 2) Tiles::template Dot<3, 5, 7>();
  }
}

template <class Tiles, int kM, int kN>
HWY_INLINE void StoreTiles(float* c) {
  Tiles::template Store<0>(c, kRowBytes);
  if constexpr (kN == 2) Tiles::template Store<1>(c + 16, kRowBytes);
  if constexpr (kM == 2) Tiles::template Store<2>(c + 16 * kPanelKeys, kRowBytes);
  if constexpr (kM == 2 && kN == 2) Tiles::template Store<3>(c + 16 * kPanelKeys + 16, kRowBytes);
}

// Scores of the panels of `args` for 16 kM rows; those of `rows` rows are scaled and their maxima taken.
template <class Tiles, int kM>
HWY_NOINLINE void AmxQk(const DotQkArgs& args, int rows) {
  const DF d;
  const VF scale = hn::Set(d, args.scale);
  for (int r = 0; r < rows; ++r) hn::Store(hn::Set(d, kMinusInfinity), d, args.max + r * kLanes);
  const int64_t chunks = args.pairs * 2 / kAmxDims;
  const char* q = reinterpret_cast<const char*>(args.q);
  for (int64_t panel = args.begin; panel < args.end; ++panel) {
    const char* k = reinterpret_cast<const char*>(args.k + panel * args.pairs * kPanelKeys);
    float* s = args.s + panel * kAmxPanelScores;
    if (args.mask != nullptr) PrefetchMask(args, panel, rows);
    ZeroTiles<Tiles, kM, 2>();
    for (int64_t c = 0; c < chunks; ++c) {
      MultiplyTiles<Tiles, kM, 2>(q + c * kAmxRows * kAmxDims * 2, kAmxDims * 2, k + c * (kAmxDims / 2) * kRowBytes, kRowBytes);
    }
    StoreTiles<Tiles, kM, 2>(s);
    for (int r = 0; r < rows; ++r) {
      float* at = s + r * kPanelKeys;
      const VF s0 = hn::Mul(hn::Load(d, at), scale), s1 = hn::Mul(hn::Load(d, at + kLanes), scale);
      hn::Store(s0, d, at);
      hn::Store(s1, d, at + kLanes);
      float* max = args.max + r * kLanes;
      hn::Store(hn::Max(hn::Load(d, max), hn::Max(s0, s1)), d, max);
    }
  }
}

// 16 kN dims from `vector` on: out = alpha out + P V, summed per block from zero.
template <class Tiles, int kM, int kN>
HWY_INLINE void AmxPvVectors(const DotPvArgs& args, int rows, int64_t vector, float* sums) {
  const DF d;
  constexpr int64_t kVBytes = kN * 64;  // of 16 kN pairs
  constexpr int64_t kPairs = kPanelKeys / 2;
  const char* v = reinterpret_cast<const char*>(args.v + vector / 2 * args.panel_stride) + args.begin * kPairs * kVBytes;
  ZeroTiles<Tiles, kM, kN>();
  for (int64_t panel = args.begin; panel < args.end; ++panel, v += kPairs * kVBytes) {
    MultiplyTiles<Tiles, kM, kN>(reinterpret_cast<const char*>(args.p + panel * kAmxPanelScores), kRowBytes, v, kVBytes);
  }
  StoreTiles<Tiles, kM, kN>(sums);
  for (int r = 0; r < rows; ++r) {
    float* out = args.out + r * args.out_stride + vector * kLanes;
    const VF alpha = hn::Set(d, args.alpha[r]);
    for (int w = 0; w < kN; ++w) {
      const VF sum = hn::Load(d, sums + r * kPanelKeys + w * kLanes);
      hn::StoreU(hn::MulAdd(hn::LoadU(d, out + w * kLanes), alpha, sum), d, out + w * kLanes);
    }
  }
}

template <class Tiles, int kM>
HWY_NOINLINE void AmxPv(const DotPvArgs& args, int rows, float* sums) {
  int64_t w = 0;
  for (; w + 2 <= args.vectors; w += 2) AmxPvVectors<Tiles, kM, 2>(args, rows, w, sums);
  if (w < args.vectors) AmxPvVectors<Tiles, kM, 1>(args, rows, w, sums);
}

// Scratch: state, 32 x 32 sums of PV, score panels.
struct AmxScratch {
  TileState state;
  alignas(64) float sums[kAmxRows * kPanelKeys];
};

template <class Tiles>
HWY_INLINE void AmxTile(const BlockArgs& args, int64_t row, int rows, AmxScratch& scratch, float* s) {
  TileState& t = scratch.state;
  const Range panels = SetLimits(args, row, rows, t);
  if (panels.empty()) return;
  const bool masked = args.modifiers != nullptr && args.modifiers->mask.base != nullptr && args.modifiers->mask.element == 1;
  if (masked) SetMaskRows(args, t, row, rows);
  const int64_t pairs = RoundUp(args.qk_dim, kAmxDims) / 2;
  const DotQkArgs qk = {.q = static_cast<const uint32_t*>(args.q) + row * pairs,
                        .k = static_cast<const uint32_t*>(args.k),
                        .s = s,
                        .pairs = pairs,
                        .scale = args.score_scale,
                        .begin = panels.begin,
                        .end = panels.end,
                        .max = t.partial,
                        .mask = masked ? t.mask : nullptr,
                        .mask_panel_bytes = masked ? kPanelKeys * ElementBytes(args.modifiers->mask.dtype) : 0};
  rows > 16 ? AmxQk<Tiles, 2>(qk, rows) : AmxQk<Tiles, 1>(qk, rows);
  Softmax<KeepPairs>(args, row, rows, panels, t, s);
  const DotPvArgs pv = {.p = s,
                        .v = static_cast<const uint32_t*>(args.v),
                        .alpha = t.alpha,
                        .p_stride = kAmxPanelScores,
                        .out = args.out + row * args.out_stride,
                        .panel_stride = RoundUp(args.block_keys, kPanelKeys) / 2 * kPanelDims,
                        .begin = panels.begin,
                        .end = panels.end,
                        .vectors = CeilDiv(args.v_dim, kLanes),
                        .out_stride = args.out_stride};
  if (!args.finite_v) return DotPvCareful(pv, rows);
  rows > 16 ? AmxPv<Tiles, 2>(pv, rows, scratch.sums) : AmxPv<Tiles, 1>(pv, rows, scratch.sums);
}

template <class Tiles>
inline void AmxBlock(const BlockArgs& args) {
  AmxScratch& scratch = *static_cast<AmxScratch*>(args.scratch);
  scratch.state.panel_scores = kAmxPanelScores;
  float* s = reinterpret_cast<float*>(&scratch + 1);
  const TileConfig config;
  Tiles::Configure(config);
  for (int64_t row = 0; row < args.rows; row += kAmxRows) {
    AmxTile<Tiles>(args, row, static_cast<int>(std::min<int64_t>(kAmxRows, args.rows - row)), scratch, s);
  }
  Tiles::Release();
}

inline void AmxPackQ(const PackArgs& args) {
  const int64_t chunks = CeilDiv(args.dim, kAmxDims);
  auto* out = static_cast<uint32_t*>(args.packed);
  for (int64_t first = 0; first < args.rows; first += kAmxRows) {
    for (int64_t c = 0; c < chunks; ++c) {
      for (int64_t r = first; r < first + kAmxRows; ++r, out += kAmxDims / 2) {
        const BF16* row = r < args.rows ? args.source.Row<BF16>(r) : nullptr;
        const VPair low = LoadWide(row, args.source.element, c * kAmxDims, args.dim);
        const VPair high = LoadWide(row, args.source.element, c * kAmxDims + kLanes, args.dim);
        const hn::Rebind<uint16_t, DPair> half;
        hn::StoreU(hn::TruncateTo(half, low), half, reinterpret_cast<uint16_t*>(out));
        hn::StoreU(hn::TruncateTo(half, high), half, reinterpret_cast<uint16_t*>(out) + kLanes);
      }
    }
  }
}

inline int64_t AmxQkRowBytes(int64_t qk_dim) { return RoundUp(qk_dim, kAmxDims) * 2; }
inline int64_t AmxVRowBytes(int64_t v_dim) { return RoundUp(v_dim, kLanes) * 2; }
inline const char* AmxAccepts(DType dtype, int64_t, int64_t) { return dtype == DType::kBF16 ? nullptr : "takes bf16"; }
inline int64_t AmxScratchBytes(int64_t, int64_t block_keys, int64_t, int64_t) {
  return static_cast<int64_t>(sizeof(AmxScratch)) + CeilDiv(block_keys, kPanelKeys) * kAmxPanelScores * 4;
}

template <class Tiles>
constexpr KernelSet AmxTable(const char* name) {
  return {.name = name,
          .quantum = {kAmxRows, kPanelKeys, kLanes},
          .probability_type = DType::kBF16,
          .accepts = AmxAccepts,
          .q_row_bytes = AmxQkRowBytes,
          .k_row_bytes = AmxQkRowBytes,
          .v_row_bytes = AmxVRowBytes,
          .scratch_bytes = AmxScratchBytes,
          .pack_q = AmxPackQ,
          .pack_k = PackPairColumns<kPanelKeys, kAmxDims / 2>,
          .pack_v = PackPairRows,
          .block = AmxBlock<Tiles>};
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_AMX_STEP_INL_H_
