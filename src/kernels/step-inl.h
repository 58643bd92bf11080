// One strip of rows against one packed key block, tile by tile: QK, softmax, PV.
#if defined(ATTENIO_SRC_KERNELS_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTENIO_SRC_KERNELS_STEP_INL_H_
#undef ATTENIO_SRC_KERNELS_STEP_INL_H_
#else
#define ATTENIO_SRC_KERNELS_STEP_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "hwy/highway.h"
#include "kernels/kernels.h"
#include "kernels/modify-inl.h"
#include "kernels/softmax-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Fills in the allowed keys of every row; returns the panels that hold any.
HWY_INLINE Range SetLimits(const BlockArgs& args, int64_t row, int rows, TileState& t) {
  const Modifiers* m = args.modifiers;
  int64_t last = args.keys_end;
  if (m != nullptr && m->mask.base != nullptr) last = std::min(last, m->mask_keys - args.first_key);
  int64_t any_begin = INT64_MAX, any_end = 0, all_begin = 0, all_end = INT64_MAX;
  for (int r = 0; r < rows; ++r) {
    int64_t begin = args.keys_begin, end = last;
    if (m != nullptr && m->begin != nullptr) begin = std::max(begin, m->begin[row + r] - args.first_key);
    if (m != nullptr && m->end != nullptr) end = std::min(end, m->end[row + r] - args.first_key);
    if (begin >= end) begin = end = 0;
    t.begin[r] = begin;
    t.end[r] = end;
    if (begin < end) any_begin = std::min(any_begin, begin);
    any_end = std::max(any_end, end);
    all_begin = std::max(all_begin, begin);
    all_end = std::min(all_end, end);
  }
  if (any_end == 0) return {0, 0};
  const Range panels = {any_begin / kPanelKeys, CeilDiv(any_end, kPanelKeys)};
  t.full = all_begin == panels.begin * kPanelKeys && all_end == panels.end * kPanelKeys;
  return panels;
}

template <class Keep>
HWY_INLINE void Softmax(const BlockArgs& args, int64_t row, int rows, Range panels, TileState& t, float* s) {
  const Modifiers* m = args.modifiers;
  const bool modified = m != nullptr && (m->softcap != 0 || m->slope != nullptr || m->mask.base != nullptr);
  if (modified) ModifyTile(args, t, row, rows, s);
  // With all keys allowed the maxima that QK took are right.
  for (int r = 0; !modified && !t.full && r < rows; ++r) {
    ClipRow(t, r, s + r * kPanelKeys);
    MaxRow(t, r, s + r * kPanelKeys);
  }
  UpdateMax(t, rows, args.exp_scale, args.max + row);
  const float scale = args.exp_scale;
  if (!args.finite_v) {
    ExpRows<Keep, true, true>(t, rows, scale, panels.begin, panels.end, s);
  } else if (scale != 1) {
    ExpRows<Keep, true, false>(t, rows, scale, panels.begin, panels.end, s);
  } else {
    ExpRows<Keep, false, false>(t, rows, scale, panels.begin, panels.end, s);
  }
  UpdateSum(t, rows, args.sum + row);
}

HWY_INLINE void Tile(const BlockArgs& args, int64_t row, int rows, TileState& t, float* s) {
  const Range panels = SetLimits(args, row, rows, t);
  if (panels.empty()) return;
  const float* q = static_cast<const float*>(args.q) + row * args.qk_dim;
  const bool masked = args.modifiers != nullptr && args.modifiers->mask.base != nullptr && args.modifiers->mask.element == 1;
  if (masked) SetMaskRows(args, t, row, rows);
  kQkRows[rows]({.q = q,
                 .k = static_cast<const float*>(args.k),
                 .dim = args.qk_dim,
                 .begin = panels.begin,
                 .end = panels.end,
                 .s = s,
                 .max = t.partial,
                 .mask = masked ? t.mask : nullptr,
                 .mask_panel_bytes = masked ? kPanelKeys * ElementBytes(args.modifiers->mask.dtype) : 0});
  Softmax<KeepF32>(args, row, rows, panels, t, s);
  const PvArgs pv = {.p = s,
                     .v = static_cast<const float*>(args.v),
                     .alpha = t.alpha,
                     .out = args.out + row * args.out_stride,
                     .panel_stride = RoundUp(args.block_keys, kPanelKeys) * kPanelDims,
                     .begin = panels.begin,
                     .end = panels.end,
                     .vectors = CeilDiv(args.v_dim, kLanes),
                     .out_stride = args.out_stride};
  if (args.finite_v) {
    kPvRows[rows](pv);
  } else {
    PvCareful(pv, rows);
  }
}

inline void Block(const BlockArgs& args) {
  TileState& t = *static_cast<TileState*>(args.scratch);
  t.panel_scores = kPanelScores;
  float* s = reinterpret_cast<float*>(&t + 1);
  for (int64_t row = 0; row < args.rows; row += kTileRows) {
    Tile(args, row, static_cast<int>(std::min<int64_t>(kTileRows, args.rows - row)), t, s);
  }
}

inline int64_t ScratchBytes(int64_t, int64_t block_keys, int64_t, int64_t) {
  return static_cast<int64_t>(sizeof(TileState)) + CeilDiv(block_keys, kPanelKeys) * kPanelScores * 4;
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_STEP_INL_H_
