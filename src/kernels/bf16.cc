// The kernel table for AVX512_BF16, and its softmax; products and packing are in the dot*-inl.h files.
#include "kernels/bf16.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/math.h"
#include "kernels/cpu.h"
#include "kernels/kernels.h"

#include "kernels/targets.h"  // before Highway

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bf16.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#if HWY_ARCH_X86_64 && HWY_TARGET == HWY_AVX3
#include "kernels/dot_pack-inl.h"
#include "kernels/dot_tile-inl.h"
#include "kernels/step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void DotTile(const BlockArgs& args, int64_t row, int rows, TileState& t, float* s) {
  const Range panels = SetLimits(args, row, rows, t);
  if (panels.empty()) return;
  const int64_t pairs = CeilDiv(args.qk_dim, 2);
  const bool masked = args.modifiers != nullptr && args.modifiers->mask.base != nullptr && args.modifiers->mask.element == 1;
  if (masked) SetMaskRows(args, t, row, rows);
  kDot.qk[rows - 1]({.q = static_cast<const uint32_t*>(args.q) + row * pairs,
                     .k = static_cast<const uint32_t*>(args.k),
                     .s = s,
                     .pairs = pairs,
                     .scale = args.score_scale,
                     .begin = panels.begin,
                     .end = panels.end,
                     .max = t.partial,
                     .mask = masked ? t.mask : nullptr,
                     .mask_panel_bytes = masked ? kPanelKeys * ElementBytes(args.modifiers->mask.dtype) : 0});
  Softmax<KeepPairs>(args, row, rows, panels, t, s);
  const DotPvArgs pv = {.p = s,
                        .v = static_cast<const uint32_t*>(args.v),
                        .alpha = t.alpha,
                        .p_stride = kPanelScores,
                        .out = args.out + row * args.out_stride,
                        .panel_stride = RoundUp(args.block_keys, kPanelKeys) / 2 * kPanelDims,
                        .begin = panels.begin,
                        .end = panels.end,
                        .vectors = CeilDiv(args.v_dim, kLanes),
                        .out_stride = args.out_stride};
  if (args.finite_v) {
    kDot.pv[rows - 1](pv);
  } else {
    DotPvCareful(pv, rows);
  }
}

inline void DotBlock(const BlockArgs& args) {
  TileState& t = *static_cast<TileState*>(args.scratch);
  t.panel_scores = kPanelScores;
  float* s = reinterpret_cast<float*>(&t + 1);
  for (int64_t row = 0; row < args.rows; row += kTileRows) {
    DotTile(args, row, static_cast<int>(std::min<int64_t>(kTileRows, args.rows - row)), t, s);
  }
}

inline const char* DotAccepts(DType dtype, int64_t, int64_t) { return dtype == DType::kBF16 ? nullptr : "takes bf16"; }
inline int64_t DotQkRowBytes(int64_t qk_dim) { return CeilDiv(qk_dim, 2) * 4; }
inline int64_t DotVRowBytes(int64_t v_dim) { return RoundUp(v_dim, kLanes) * 2; }

inline const KernelSet* DotTable() {
  static constexpr KernelSet kTable = {
      .name = "bf16-avx512",
      .quantum = {kTileRows, kPanelKeys, kLanes},
      .probability_type = DType::kBF16,
      .accepts = DotAccepts,
      .q_row_bytes = DotQkRowBytes,
      .k_row_bytes = DotQkRowBytes,
      .v_row_bytes = DotVRowBytes,
      .scratch_bytes = ScratchBytes,
      .pack_q = PackPairColumns<kTileRows, 1>,
      .pack_k = PackPairColumns<kPanelKeys, 1>,
      .pack_v = PackPairRows,
      .block = DotBlock,
  };
  return &kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();
#endif  // AVX3

#if HWY_ONCE
namespace attenio {

std::vector<KernelChoice> Bf16Kernels() {
  std::vector<KernelChoice> list;
#if HWY_ARCH_X86_64 && (HWY_TARGETS & HWY_AVX3)
  const KernelSet* kernel = N_AVX3::DotTable();
  if ((hwy::SupportedTargets() & HWY_AVX3) == 0) {
    list.push_back({.kernel = nullptr, .name = kernel->name, .reason = "this processor lacks AVX-512"});
  } else if (!CpuHasAvx512Bf16()) {
    list.push_back({.kernel = nullptr, .name = kernel->name, .reason = "this processor lacks AVX512_BF16"});
  } else {
    list.push_back({.kernel = kernel, .name = kernel->name, .reason = ""});
  }
#endif
  return list;
}

}  // namespace attenio
#endif
