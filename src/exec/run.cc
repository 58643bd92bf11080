#include "exec/run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "exec/workspace.h"

namespace attenio {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLog2e = 1.44269504088896f;

// About this many keys per packing task: large against the hand-out, small against a head.
constexpr int64_t kPackKeys = 1024;

struct Run {
  const Problem& p;
  const Operands& operands;
  std::byte* base;  // aligned workspace

  int64_t packs() const { return CeilDiv(p.blocks, blocks_per_pack()); }  // per KV head
  int64_t blocks_per_pack() const { return std::max<int64_t>(1, kPackKeys / std::max<int64_t>(1, p.schedule.levels[0].keys)); }
};

const void* At(const void* base, DType type, int64_t element) {
  return static_cast<const std::byte*>(base) + element * ElementBytes(type);
}

RowView KeyRows(const void* base, DType type, const Strides& s, int64_t batch, int64_t head) {
  return {.base = At(base, type, batch * s.batch + head * s.head), .dtype = type, .outer = s.row, .element = s.element};
}

// The rows of one KV head: the query heads of its group, query by query.
RowView QueryRows(const Problem& p, const void* base, DType type, const Strides& s, int64_t batch, int64_t kv_head) {
  const int64_t group = p.shape.group();
  return {.base = At(base, type, batch * s.batch + kv_head * group * s.head),
          .dtype = type, .group = group, .outer = s.row, .inner = s.head, .element = s.element};
}

// ---------------------------------------------------------------- packing

std::byte* PackedHead(const Run& run, int64_t head) {
  return run.base + run.p.packed_heads + head % run.p.slots * run.p.packed_bytes_per_head;
}

uint8_t* FiniteFlags(const Run& run, std::byte* packed_head) {
  return reinterpret_cast<uint8_t*>(packed_head + run.p.blocks * (run.p.block_k_bytes + run.p.block_v_bytes));
}

// Keys in use: a mask shorter than that excludes the rest.
int64_t KeysOf(const Problem& p, int64_t batch) {
  const int64_t keys = p.kv_lens.empty() ? p.shape.kv_len : p.kv_lens[static_cast<size_t>(batch)];
  return p.desc.mask.dtype ? std::min(keys, p.desc.mask.kv_len) : keys;
}

Range BlockKeys(const Problem& p, int64_t block, int64_t kv_len) {
  const int64_t begin = block * p.schedule.levels[0].keys;
  return {begin, std::min(begin + p.schedule.levels[0].keys, kv_len)};
}

// Packs K and V of one block; returns whether V is finite.
bool PackBlock(const Run& run, int64_t batch, int64_t kv_head, Range keys, std::byte* k, std::byte* v) {
  const AttentionDesc& d = run.p.desc;
  PackArgs args{.source = {}, .rows = keys.size(), .dim = d.qk_dim, .packed = k};
  args.source = KeyRows(run.operands.k, d.dtype, d.k, batch, kv_head).From(keys.begin);
  run.p.kernel->pack_k(args);
  args.source = KeyRows(run.operands.v, d.dtype, d.v, batch, kv_head).From(keys.begin);
  args.dim = d.v_dim;
  args.packed = v;
  return run.p.kernel->pack_v(args);
}

void PackTask(const Run& run, int64_t head, int64_t pack) {
  const Problem& p = run.p;
  const int64_t batch = head / p.shape.kv_heads, kv_head = head % p.shape.kv_heads;
  std::byte* packed = PackedHead(run, head);
  const int64_t begin = pack * run.blocks_per_pack();
  const int64_t end = std::min(begin + run.blocks_per_pack(), p.blocks);
  for (int64_t b = begin; b < end; ++b) {
    const Range keys = BlockKeys(p, b, KeysOf(p, batch));
    if (keys.empty()) return;
    std::byte* k = packed + b * (p.block_k_bytes + p.block_v_bytes);
    FiniteFlags(run, packed)[b] = PackBlock(run, batch, kv_head, keys, k, k + p.block_k_bytes);
  }
}

// ---------------------------------------------------------------- one query tile

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
  return {.rows = rows, .q = base + w.q, .out = floats(w.out), .max = floats(w.max), .sum = floats(w.sum),
          .slope = floats(w.slope), .sink = floats(w.sink), .begin = ints(w.begin), .end = ints(w.end),
          .position = ints(w.position), .scratch = base + w.scratch, .k = base + w.k, .v = base + w.v,
          .out_stride = RoundUp(run.p.shape.v_dim, run.p.kernel->quantum.dims)};
}

// Scores stay in units of log 2 unless a modifier needs natural ones: a mask of the lowest finite number would overflow.
bool NaturalUnits(const AttentionDesc& d) { return d.softcap > 0 || d.alibi || d.mask.dtype.has_value(); }

// What makes scores of q.k, by packing or by the kernel.
float ScoreScale(const AttentionDesc& d) { return static_cast<float>(NaturalUnits(d) ? *d.scale : *d.scale * 1.4426950408889634); }

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
  FinishArgs args{.out = t.out, .max = t.max, .sum = t.sum, .out_stride = t.out_stride, .rows = t.rows.size(), .v_dim = d.v_dim,
                  .exp_scale = NaturalUnits(d) ? kLog2e : 1.0f, .sink = d.sinks ? t.sink : nullptr, .target = {}, .lse = {}};
  args.target = QueryRows(run.p, run.operands.out, *d.out_dtype, d.out, batch, kv_head).From(t.rows.begin);
  if (d.lse) args.lse = QueryRows(run.p, run.operands.lse, DType::kF32, d.lse_strides, batch, kv_head).From(t.rows.begin);
  FinishRows(args);
}

// Packed K/V of the block that a step's keys lie in.
struct PackedBlock {
  int64_t index = -1;
  Range keys;
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  bool finite_v = true;
};

PackedBlock FindBlock(const Run& run, const Shape& shape, int64_t head, int64_t index, const Tile& t) {
  const Problem& p = run.p;
  PackedBlock b{.index = index, .keys = BlockKeys(p, index, shape.kv_len)};
  if (p.schedule.packing == Packing::kBlock) {
    b.k = t.k;
    b.v = t.v;
    b.finite_v = PackBlock(run, head / p.shape.kv_heads, head % p.shape.kv_heads, b.keys, t.k, t.v);
  } else {
    std::byte* packed = PackedHead(run, head);
    b.k = packed + index * (p.block_k_bytes + p.block_v_bytes);
    b.v = b.k + p.block_k_bytes;
    b.finite_v = FiniteFlags(run, packed)[index] != 0;
  }
  return b;
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
  ForEachStep(p.schedule, shape, t.rows, [&](const Step& step) {
    const int64_t index = step.keys.begin / p.schedule.levels[0].keys;
    if (index != block.index) block = FindBlock(run, shape, head, index, t);
    PrefetchNextBlock(run, step, block, t);
    RunStep(run, step, block, mask, t);
  }, 2);
  FinishTile(run, batch, kv_head, t);
}

// ---------------------------------------------------------------- phases

int64_t Waves(const Problem& p) { return CeilDiv(p.heads, p.wave); }

int64_t HeadsInWave(const Problem& p, int64_t wave) {
  return wave < 0 ? 0 : std::clamp<int64_t>(p.heads - wave * p.wave, 0, p.wave);
}

struct Phase {
  int64_t compute_wave, compute_tasks, pack_wave, pack_tasks;
};

// Packing for themselves, tasks need no other phase. Ahead: phase i computes wave i - 1 and packs wave i. Else they alternate.
Phase PhaseOf(const Run& run, int64_t phase) {
  const Problem& p = run.p;
  const auto compute = [&](int64_t wave) { return HeadsInWave(p, wave) * p.tiles; };
  const auto pack = [&](int64_t wave) { return p.tiles > 0 ? HeadsInWave(p, wave) * run.packs() : 0; };
  if (p.schedule.packing == Packing::kBlock) return {phase, compute(phase), 0, 0};
  if (p.overlap.pack_ahead) return {phase - 1, compute(phase - 1), phase, pack(phase)};
  const int64_t wave = phase / 2;
  return phase % 2 == 0 ? Phase{0, 0, wave, pack(wave)} : Phase{wave, compute(wave), 0, 0};
}

std::byte* Align(std::byte* workspace) {
  const auto at = reinterpret_cast<uintptr_t>(workspace);
  return workspace + (WorkspaceSizer::kAlignment - at % WorkspaceSizer::kAlignment) % WorkspaceSizer::kAlignment;
}

}  // namespace

int64_t NumPhases(const Problem& p) {
  if (p.tiles == 0) return 0;
  if (p.schedule.packing == Packing::kBlock) return Waves(p);
  return p.overlap.pack_ahead ? Waves(p) + 1 : 2 * Waves(p);
}

int64_t NumTasks(const Problem& p, int64_t phase) {
  const Phase f = PhaseOf({p, {}, nullptr}, phase);
  return f.compute_tasks + f.pack_tasks;
}

void RunTask(const Problem& p, const Operands& operands, std::byte* workspace, int64_t phase, int64_t task, int worker) {
  const Run run{p, operands, Align(workspace)};
  const Phase f = PhaseOf(run, phase);
  if (task >= f.compute_tasks) {
    const int64_t i = task - f.compute_tasks;
    return PackTask(run, f.pack_wave * p.wave + i / run.packs(), i % run.packs());
  }
  // Head by head, so that workers sweep the same K and V; the last tiles first: under a causal mask they cost most.
  TileTask(run, f.compute_wave * p.wave + task / p.tiles, p.tiles - 1 - task % p.tiles, worker);
}

void RunAll(const Problem& p, const Operands& operands, std::byte* workspace, const Parallel& parallel) {
  struct Call {
    const Problem& p;
    const Operands& operands;
    std::byte* workspace;
    int64_t phase;
  } call{p, operands, workspace, 0};
  for (; call.phase < NumPhases(p); ++call.phase) {
    const int64_t tasks = NumTasks(p, call.phase);
    if (tasks == 0) continue;
    parallel.run(parallel.context, tasks, [](void* argument, int64_t task, int worker) {
      const Call& c = *static_cast<const Call*>(argument);
      RunTask(c.p, c.operands, c.workspace, c.phase, task, worker);
    }, &call);
  }
}

}  // namespace attenio
