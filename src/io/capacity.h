// What must be resident at once for a tile to work, in bytes: the constraint side of the solver.
#ifndef ATTENIO_SRC_IO_CAPACITY_H_
#define ATTENIO_SRC_IO_CAPACITY_H_

#include <cstdint>

#include "attenio/io.h"

namespace attenio::io {

// Sizes are products of four 64-bit numbers at most, which 128 bits hold for every shape that validation lets through.
using Wide = __int128;

// The sizes that capacity depends on: no lengths, heads or threads.
struct Dims {
  int64_t qk = 0;
  int64_t v = 0;
  int64_t element = 4;      // bytes of q, k, v
  int64_t accumulator = 4;  // bytes of O, scores, row statistics
};

// Bytes of one instance that a single thread may plan with: its share of the level, less one way for the lines that
// stream (Low et al., TOMS 2016; a direct-mapped cache gives half). An explicitly managed level gives everything.
int64_t UsableBytes(const MemoryLevel& level);

// Bytes that stay resident. Explicit memory follows AttenIO's accounting (Sec. 3: Q, O, three statistics and the scores
// of the tile, K and V one after the other); a cache keeps no scores of the whole tile but `strip_rows` of them, two
// statistics, and the K/V block twice, since under LRU a new block pushes out the oldest lines of Q and O before those
// of the old block.
struct Residency {
  bool cache = true;
  Dims dims;
  int64_t strip_rows = 0;  // rows whose scores against one key block are in flight (cache only)

  // Query-resident: Q tile and O stay, `keys` keys at a time stream.
  Wide QueryBytes(int64_t rows, int64_t keys) const;
  // The most rows that fit with `keys`, 0 when none does.
  int64_t MaxQueryRows(int64_t bytes, int64_t keys) const;
  // Score-resident: rows x keys scores stay, slices of one dim of Q, K, V, O stream (double-buffered in a cache).
  Wide ScoreBytes(int64_t rows, int64_t keys) const;
  int64_t MaxScoreRows(int64_t bytes, int64_t keys) const;
};

}  // namespace attenio::io

#endif  // ATTENIO_SRC_IO_CAPACITY_H_
