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

// Bytes of one instance that a single thread may plan with: its share of the level, less one way for the lines that stream
// (Low et al., TOMS 2016; a direct-mapped cache gives half). An explicitly managed level gives everything.
int64_t UsableBytes(const MemoryLevel& level);

// Bytes that stay resident. Explicit memory follows AttenIO's accounting (Sec. 3: a d + b d + a b + a d + 3 a: Q, one of K and V
// at a time, scores, O, three statistics). A cache keeps the scores of `strip_rows` rows only, two statistics, and what streams
// TWICE, since under LRU a new block pushes out the oldest lines of the resident tile before those of the old block.
struct Residency {
  bool cache = true;
  Dims dims;
  int64_t strip_rows = 0;  // rows whose scores against one key block are in flight (cache, query- and key-resident)
  int64_t kv_len = 0;      // whole rows of scores (row-buffered)

  // Linear in `rows` for fixed keys and in `keys` for fixed rows.
  Wide Bytes(Dataflow dataflow, int64_t rows, int64_t keys) const;
  // The most rows (keys) that fit in `bytes`; 0 when not one does, INT64_MAX when they cost nothing.
  int64_t MaxRows(Dataflow dataflow, int64_t bytes, int64_t keys) const;
  int64_t MaxKeys(Dataflow dataflow, int64_t bytes, int64_t rows) const;
};

}  // namespace attenio::io

#endif  // ATTENIO_SRC_IO_CAPACITY_H_
