// One query tile: its rows' state, and the kernel step by step over the key blocks.
#include <algorithm>
#include <limits>

#include "base/math.h"
#include "exec/tasks.h"

namespace attenio {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLog2e = 1.44269504088896f;

// The rows of one KV head: the query heads of its group, query by query.
RowView QueryRows(const Problem& p, const void* base, DType type, const Strides& s, int64_t batch, int64_t kv_head) {
  const int64_t group = p.shape.group();
  return {.base = At(base, type, batch * s.batch + kv_head * group * s.head),
          .dtype = type,
          .group = group,
          .outer = s.row,
          .inner = s.head,
          .element = s.element};
}

// The state of a query tile in its worker's piece of the workspace.
struct Tile {
  Range rows;
  std::byte* q;
  float *out, *max, *sum, *slope, *sink;
  int64_t *begin, *end, *position;
  void* scratch;
  std::byte *k, *v;  // block packed by this worker (Packing::kBlock)
  int64_t out_stride;
  int64_t blocks_end = 0;  // key blocks that a row of the tile may attend end here
};

Tile MakeTile(const Run& run, Range rows, int worker) {
  const WorkerLayout& w = run.p.worker;
  std::byte* base = run.base + run.p.worker_base + worker * w.bytes;
  const auto floats = [&](int64_t at) { return reinterpret_cast<float*>(base + at); };
  const auto ints = [&](int64_t at) { return reinterpret_cast<int64_t*>(base + at); };
  return {.rows = rows,
          .q = base + w.q,
          .out = floats(w.out),
          .max = floats(w.max),
          .sum = floats(w.sum),
          .slope = floats(w.slope),
          .sink = floats(w.sink),
          .begin = ints(w.begin),
          .end = ints(w.end),
          .position = ints(w.position),
          .scratch = base + w.scratch,
          .k = base + w.k,
          .v = base + w.v,
          .out_stride = RoundUp(run.p.shape.v_dim, run.p.kernel->quantum.dims)};
}

// Scores stay in units of log 2 unless a modifier needs natural ones: a mask of the lowest finite number would overflow.
bool NaturalUnits(const AttentionDesc& d) { return d.softcap > 0 || d.alibi || d.mask.dtype.has_value(); }

// What makes scores of q.k, by packing or by the kernel.
float ScoreScale(const AttentionDesc& d) {
  return static_cast<float>(NaturalUnits(d) ? *d.scale : *d.scale * 1.4426950408889634);
}

void StartTile(const Run& run, const Shape& shape, int64_t batch, int64_t kv_head, const Tile& t) {
  const AttentionDesc& d = run.p.desc;
  const int64_t group = shape.group(), n = t.rows.size();
  if (t.blocks_end > 0) {  // without keys, q may be missing
    PackArgs args{.source = {}, .rows = n, .dim = d.qk_dim, .packed = t.q};
    args.multiplier = ScoreScale(d);
    args.source = QueryRows(run.p, run.operands.q, d.dtype, d.q, batch, kv_head).From(t.rows.begin);
    run.p.kernel->pack_q(args);
  }
  std::fill_n(t.out, n * t.out_stride, 0.0f);
  std::fill_n(t.max, n, -kInfinity);
  std::fill_n(t.sum, n, 0.0f);
  for (int64_t r = 0; r < n; ++r) {
    const int64_t row = t.rows.begin + r, head = kv_head * group + row % group;
    const Range keys = shape.AnyKeys({row, row + 1});
    t.begin[r] = keys.begin;
    t.end[r] = keys.end;
    t.position[r] = row / group + shape.offset;
    if (d.alibi) t.slope[r] = run.operands.alibi[head];
    if (d.sinks) t.sink[r] = run.operands.sinks[head];
  }
}

void FinishTile(const Run& run, int64_t batch, int64_t kv_head, const Tile& t) {
  const AttentionDesc& d = run.p.desc;
  FinishArgs args{.out = t.out,
                  .max = t.max,
                  .sum = t.sum,
                  .out_stride = t.out_stride,
                  .rows = t.rows.size(),
                  .v_dim = d.v_dim,
                  .exp_scale = NaturalUnits(d) ? kLog2e : 1.0f,
                  .sink = d.sinks ? t.sink : nullptr,
                  .target = {},
                  .lse = {}};
  args.target = QueryRows(run.p, run.operands.out, *d.out_dtype, d.out, batch, kv_head).From(t.rows.begin);
  if (d.lse)
    args.lse = QueryRows(run.p, run.operands.lse, DType::kF32, d.lse_strides, batch, kv_head).From(t.rows.begin);
  FinishRows(args);
}

// Each strip fetches its share of the next packed block into L2, so that the block is there when its turn comes and no burst of
// requests holds up the strip's own loads.
void PrefetchNextBlock(const Run& run, const Step& step, const PackedBlock& block, const Tile& t) {
  const Problem& p = run.p;
  if (!p.overlap.prefetch || p.schedule.packing == Packing::kBlock || block.index + 1 >= t.blocks_end) return;
  constexpr int64_t kLine = 64;
  const int64_t strip = p.schedule.levels[1].queries, bytes = p.block_k_bytes + p.block_v_bytes;
  const int64_t share = RoundUp(CeilDiv(bytes, CeilDiv(t.rows.size(), strip)), kLine);
  const int64_t begin = (step.queries.begin - t.rows.begin) / strip * share, end = std::min(begin + share, bytes);
  const std::byte* next = block.k + bytes;
  for (int64_t at = begin; at < end; at += kLine) __builtin_prefetch(next + at, 0, 2);
}

void RunStep(const Run& run, const Step& step, const PackedBlock& block, const RowView& mask, const Tile& t) {
  const AttentionDesc& d = run.p.desc;
  const int64_t r = step.queries.begin - t.rows.begin;
  const bool limits = step.edge || !(step.keys == block.keys);
  Modifiers m{.softcap = static_cast<float>(d.softcap),
              .slope = d.alibi ? t.slope + r : nullptr,
              .position = t.position + r,
              .mask = mask.base != nullptr ? mask.From(step.queries.begin) : RowView{},
              .mask_keys = d.mask.kv_len,
              .begin = limits ? t.begin + r : nullptr,
              .end = limits ? t.end + r : nullptr};
  const bool natural = NaturalUnits(d);
  BlockArgs args{.q = t.q + r * run.p.kernel->q_row_bytes(d.qk_dim),
                 .k = block.k,
                 .v = block.v,
                 .out = t.out + r * t.out_stride,
                 .max = t.max + r,
                 .sum = t.sum + r,
                 .scratch = t.scratch,
                 .rows = step.queries.size(),
                 .block_keys = block.keys.size(),
                 .keys_begin = step.keys.begin - block.keys.begin,
                 .keys_end = step.keys.end - block.keys.begin,
                 .first_key = block.keys.begin,
                 .qk_dim = d.qk_dim,
                 .v_dim = d.v_dim,
                 .out_stride = t.out_stride,
                 .score_scale = ScoreScale(d),
                 .exp_scale = natural ? kLog2e : 1.0f,
                 .finite_v = block.finite_v,
                 .modifiers = natural || limits ? &m : nullptr};
  run.p.kernel->block(args);
}

}  // namespace

void TileTask(const Run& run, int64_t head, int64_t tile, int worker) {
  const Problem& p = run.p;
  const int64_t batch = head / p.shape.kv_heads, kv_head = head % p.shape.kv_heads;
  Shape shape = p.shape;
  shape.kv_len = KeysOf(p, batch);
  if (!p.offsets.empty()) shape.offset = p.offsets[static_cast<size_t>(batch)];
  Tile t = MakeTile(run, TileQueries(p.schedule, p.shape, tile), worker);
  t.blocks_end = CeilDiv(shape.AnyKeys(t.rows).end, p.schedule.levels[0].keys);
  StartTile(run, shape, batch, kv_head, t);
  const MaskDesc& md = p.desc.mask;
  RowView mask;
  if (md.dtype.has_value()) {
    mask = QueryRows(p, run.operands.mask, *md.dtype, {md.batch, md.head, md.query, md.key}, batch, kv_head);
  }
  PackedBlock block;
  ForEachStep(
      p.schedule, shape, t.rows,
      [&](const Step& step) {
        const int64_t index = step.keys.begin / p.schedule.levels[0].keys;
        if (index != block.index) {
          block = p.schedule.packing == Packing::kBlock ? PackBlock(run, head, index, t.k, t.v)
                                                        : FindPacked(run, head, index);
        }
        PrefetchNextBlock(run, step, block, t);
        RunStep(run, step, block, mask, t);
      },
      2);
  FinishTile(run, batch, kv_head, t);
}

}  // namespace attenio
