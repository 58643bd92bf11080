// The tasks of a call, between the files of exec: packing the keys of a head (pack.cc) and computing a query tile (tile.cc).
#ifndef ATTENIO_SRC_EXEC_TASKS_H_
#define ATTENIO_SRC_EXEC_TASKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "exec/run.h"

namespace attenio {

// About this many keys per packing task: large against the hand-out, small against a head.
constexpr int64_t kPackKeys = 1024;

struct Run {
  const Problem& p;
  const Operands& operands;
  std::byte* base;  // aligned workspace

  int64_t packs() const { return CeilDiv(p.blocks, blocks_per_pack()); }  // per KV head
  int64_t blocks_per_pack() const {
    return std::max<int64_t>(1, kPackKeys / std::max<int64_t>(1, p.schedule.levels[0].keys));
  }
};

// Packed K and V of one key block.
struct PackedBlock {
  int64_t index = -1;
  Range keys;
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  bool finite_v = true;
};

inline const void* At(const void* base, DType type, int64_t element) {
  return static_cast<const std::byte*>(base) + element * ElementBytes(type);
}

// Keys in use: a mask shorter than that excludes the rest.
int64_t KeysOf(const Problem& p, int64_t batch);

// Packs one block of a KV head at k and v: into a worker's own memory, where blocks are not packed ahead.
PackedBlock PackBlock(const Run& run, int64_t head, int64_t index, std::byte* k, std::byte* v);

// Where a head's packing tasks have put a block.
PackedBlock FindPacked(const Run& run, int64_t head, int64_t index);

// Packs the `pack`-th part of the blocks of a KV head.
void PackTask(const Run& run, int64_t head, int64_t pack);

// Computes one query tile of a KV head with the worker's piece of the workspace.
void TileTask(const Run& run, int64_t head, int64_t tile, int worker);

}  // namespace attenio

#endif  // ATTENIO_SRC_EXEC_TASKS_H_
