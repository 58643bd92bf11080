// Sizes and offsets of a call's workspace, and its phases.
#include <algorithm>

#include "base/math.h"
#include "exec/run.h"
#include "exec/workspace.h"

namespace attenio {
namespace {

WorkerLayout LayOutWorker(const Problem& p, WorkspaceSizer* sizer) {
  const KernelSet& k = *p.kernel;
  const int64_t rows = std::min(p.schedule.levels[0].queries, p.shape.rows());
  const int64_t padded = RoundUp(rows, k.quantum.rows);
  const int64_t strip = std::min(p.schedule.levels[1].queries, padded);
  const int64_t keys = std::min(p.schedule.levels[0].keys, p.shape.kv_len);
  WorkerLayout w;
  w.q = sizer->Take(padded, k.q_row_bytes(p.shape.qk_dim));
  w.out = sizer->Take(padded, RoundUp(p.shape.v_dim, k.quantum.dims) * 4);
  w.max = sizer->Take(padded, 4);
  w.sum = sizer->Take(padded, 4);
  w.begin = sizer->Take(padded, 8);
  w.end = sizer->Take(padded, 8);
  w.position = sizer->Take(padded, 8);
  w.slope = sizer->Take(padded, 4);
  w.sink = sizer->Take(padded, 4);
  w.scratch = sizer->Take(1, k.scratch_bytes(strip, RoundUp(keys, k.quantum.keys), p.shape.qk_dim, p.shape.v_dim));
  if (p.schedule.packing == Packing::kBlock) {
    w.k = sizer->Take(1, p.block_k_bytes);
    w.v = sizer->Take(1, p.block_v_bytes);
  }
  return w;
}

// As many KV heads at a time as `wave_bytes` hold, but enough tasks to keep the workers busy between two waves.
int64_t WaveHeads(const Problem& p, int64_t wave_bytes) {
  constexpr int64_t kTasksPerWorker = 4;  // a wave then ends with at most about 1/4 of a task's time idle per worker
  const int64_t by_memory = wave_bytes / std::max<int64_t>(1, p.packed_bytes_per_head);
  const int64_t by_tasks = CeilDiv(kTasksPerWorker * p.workers, std::max<int64_t>(1, p.tiles));
  const int64_t most = std::clamp<int64_t>(std::max(by_memory, by_tasks), 1, std::max<int64_t>(1, p.heads));
  return CeilDiv(std::max<int64_t>(1, p.heads), CeilDiv(std::max<int64_t>(1, p.heads), most));  // waves of equal size
}

}  // namespace

Status LayOut(Problem* p, int64_t wave_bytes) {
  const KernelSet& k = *p->kernel;
  const Status overflow = Status::Error(Code::kInvalidArgument, "the workspace for q_len %lld, kv_len %lld, dims %lld/%lld overflows",
                                        static_cast<long long>(p->shape.q_len), static_cast<long long>(p->shape.kv_len),
                                        static_cast<long long>(p->shape.qk_dim), static_cast<long long>(p->shape.v_dim));
  const int64_t keys = std::min(p->schedule.levels[0].keys, p->shape.kv_len);
  // Where nothing is written there is nothing to do, however many heads there are.
  p->tiles = p->desc.lse || p->shape.v_dim > 0 ? NumTiles(p->schedule, p->shape) : 0;
  p->heads = p->shape.batch * p->shape.kv_heads;
  p->blocks = keys > 0 ? CeilDiv(p->shape.kv_len, keys) : 0;

  WorkspaceSizer block;
  const int64_t padded_keys = RoundUp(keys, k.quantum.keys);
  block.Take(padded_keys, k.k_row_bytes(p->shape.qk_dim));
  p->block_k_bytes = block.size();
  block.Take(padded_keys, k.v_row_bytes(p->shape.v_dim));
  p->block_v_bytes = block.size() - p->block_k_bytes;

  WorkspaceSizer sizer;
  p->wave = std::max<int64_t>(1, p->heads);
  if (p->schedule.packing == Packing::kHead) {
    WorkspaceSizer head;
    head.Take(p->blocks, block.size());
    head.Take(p->blocks, 1);  // whether each V block is finite
    p->packed_bytes_per_head = head.size();
    if (!head.ok() || !block.ok()) return overflow;
    p->wave = WaveHeads(*p, wave_bytes);
    p->slots = p->wave < p->heads && p->overlap.pack_ahead ? 2 * p->wave : p->wave;
    p->packed_heads = sizer.Take(p->slots, p->packed_bytes_per_head);
  }
  WorkspaceSizer worker;
  p->worker = LayOutWorker(*p, &worker);
  p->worker.bytes = worker.size();
  p->worker_base = sizer.Take(p->workers, p->worker.bytes);
  p->workspace_bytes = sizer.size() + WorkspaceSizer::kAlignment;  // the caller's pointer may have any alignment
  return sizer.ok() && worker.ok() && block.ok() ? Status() : overflow;
}

}  // namespace attenio
