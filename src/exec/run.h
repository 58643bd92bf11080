// Where schedule meets kernel. A call is a list of phases, each a list of independent tasks: packing K and V of some KV heads
// (a wave), then the query tiles of those heads while the next wave is packed. Every order inside comes from ForEachStep.
#ifndef ATTENIO_SRC_EXEC_RUN_H_
#define ATTENIO_SRC_EXEC_RUN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attenio/attention.h"
#include "kernels/kernels.h"

namespace attenio {

// Offsets into one worker's piece of the workspace.
struct WorkerLayout {
  int64_t q = 0, out = 0, max = 0, sum = 0;                  // state of one query tile
  int64_t begin = 0, end = 0, position = 0, slope = 0, sink = 0;  // per row of the tile
  int64_t scratch = 0, k = 0, v = 0;
  int64_t bytes = 0;
};

// A validated call, ready to run. Immutable.
struct Problem {
  AttentionDesc desc;              // strides, scale, out_dtype, mask.kv_len all filled in; offsets/kv_lens point below
  std::vector<int64_t> offsets, kv_lens;  // per batch entry
  Shape shape;                     // with the largest kv_len; offset is set per batch entry
  const KernelSet* kernel = nullptr;
  Schedule schedule;               // levels[0]: L2 tile, levels[1]: L1 strip, levels[2]: register tile
  OverlapOptions overlap;
  int workers = 1;

  // Filled in by LayOut.
  int64_t tiles = 0;         // per KV head
  int64_t heads = 0;         // batch x kv_heads
  int64_t wave = 0;          // KV heads packed and computed together
  int64_t slots = 1;         // packed KV heads in the workspace: two waves when one is packed during the other
  int64_t blocks = 0;        // key blocks per KV head
  int64_t block_k_bytes = 0, block_v_bytes = 0;  // one packed block
  int64_t packed_heads = 0;  // offset of the packed K/V of the waves in flight
  int64_t packed_bytes_per_head = 0;
  WorkerLayout worker;
  int64_t worker_base = 0;   // offset of the workers' pieces
  int64_t workspace_bytes = 0;
};

// Computes layout and waves from the rest; kInvalidArgument when a size overflows.
Status LayOut(Problem* problem, int64_t wave_bytes);

int64_t NumPhases(const Problem& problem);
int64_t NumTasks(const Problem& problem, int64_t phase);
void RunTask(const Problem& problem, const Operands& operands, std::byte* workspace, int64_t phase, int64_t task, int worker);
void RunAll(const Problem& problem, const Operands& operands, std::byte* workspace, const Parallel& parallel);

}  // namespace attenio

#endif  // ATTENIO_SRC_EXEC_RUN_H_
