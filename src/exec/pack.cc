// Packing of K and V into the blocks that kernels read.
#include <algorithm>

#include "exec/tasks.h"

namespace attenio {
namespace {

RowView KeyRows(const void* base, DType type, const Strides& s, int64_t batch, int64_t head) {
  return {.base = At(base, type, batch * s.batch + head * s.head), .dtype = type, .outer = s.row, .element = s.element};
}

std::byte* PackedHead(const Run& run, int64_t head) {
  return run.base + run.p.packed_heads + head % run.p.slots * run.p.packed_bytes_per_head;
}

std::byte* BlockAt(const Run& run, int64_t head, int64_t index) {
  return PackedHead(run, head) + index * (run.p.block_k_bytes + run.p.block_v_bytes);
}

// Whether V is finite, a byte for each block.
uint8_t* FiniteFlags(const Run& run, int64_t head) {
  return reinterpret_cast<uint8_t*>(BlockAt(run, head, run.p.blocks));
}

Range BlockKeys(const Problem& p, int64_t block, int64_t kv_len) {
  const int64_t begin = block * p.schedule.levels[0].keys;
  return {begin, std::min(begin + p.schedule.levels[0].keys, kv_len)};
}

}  // namespace

int64_t KeysOf(const Problem& p, int64_t batch) {
  const int64_t keys = p.kv_lens.empty() ? p.shape.kv_len : p.kv_lens[static_cast<size_t>(batch)];
  return p.desc.mask.dtype ? std::min(keys, p.desc.mask.kv_len) : keys;
}

PackedBlock PackBlock(const Run& run, int64_t head, int64_t index, std::byte* k, std::byte* v) {
  const AttentionDesc& d = run.p.desc;
  const int64_t batch = head / run.p.shape.kv_heads, kv_head = head % run.p.shape.kv_heads;
  PackedBlock b{.index = index, .keys = BlockKeys(run.p, index, KeysOf(run.p, batch)), .k = k, .v = v};
  PackArgs args{.source = {}, .rows = b.keys.size(), .dim = d.qk_dim, .packed = k};
  args.source = KeyRows(run.operands.k, d.dtype, d.k, batch, kv_head).From(b.keys.begin);
  run.p.kernel->pack_k(args);
  args.source = KeyRows(run.operands.v, d.dtype, d.v, batch, kv_head).From(b.keys.begin);
  args.dim = d.v_dim;
  args.packed = v;
  b.finite_v = run.p.kernel->pack_v(args);
  return b;
}

PackedBlock FindPacked(const Run& run, int64_t head, int64_t index) {
  const std::byte* k = BlockAt(run, head, index);
  return {.index = index,
          .keys = BlockKeys(run.p, index, KeysOf(run.p, head / run.p.shape.kv_heads)),
          .k = k,
          .v = k + run.p.block_k_bytes,
          .finite_v = FiniteFlags(run, head)[index] != 0};
}

void PackTask(const Run& run, int64_t head, int64_t pack) {
  const Problem& p = run.p;
  const int64_t begin = pack * run.blocks_per_pack(), end = std::min(begin + run.blocks_per_pack(), p.blocks);
  for (int64_t b = begin; b < end; ++b) {
    if (BlockKeys(p, b, KeysOf(p, head / p.shape.kv_heads)).empty()) return;
    std::byte* k = BlockAt(run, head, b);
    FiniteFlags(run, head)[b] = PackBlock(run, head, b, k, k + p.block_k_bytes).finite_v;
  }
}

}  // namespace attenio
