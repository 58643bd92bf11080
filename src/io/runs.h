// The row tiles of a level as a few arithmetic progressions, and sums of floors over them: closed forms for any number of tiles.
#ifndef ATTENIO_SRC_IO_RUNS_H_
#define ATTENIO_SRC_IO_RUNS_H_

#include <algorithm>
#include <cstdint>

#include "attenio/io.h"
#include "io/nest.h"

namespace attenio::io {

using Wide = __int128;

// Sum over i in [0, n) of floor((a i + b) / m), a and b >= 0, m >= 1: Euclid's algorithm on (a, m), so a number of divisions that
// grows with the logarithm of the largest term. n and the terms must leave room for their product in 127 bits.
Wide FloorSum(Wide n, Wide a, Wide b, Wide m);

// `count` row tiles of `size` rows; tile i begins at row begin + i stride.
struct TileRun {
  int64_t begin = 0;
  int64_t size = 0;
  int64_t stride = 0;
  int64_t count = 1;
};

// Calls visit(TileRun) until every tile that levels [at, end) cut out of `run` has been in one. Where a level does not divide the one
// around it there is one run for each tile inside or each tile around, whichever are fewer, and one for the ragged ends; else two.
// Without a band only the number of tiles matters, not where they begin.
template <class Visit>
void ForEachRun(const Schedule& schedule, const Shape& shape, int at, int end, const TileRun& run, Visit&& visit) {
  if (run.size <= 0) return;
  if (at == end) return visit(run);
  const int64_t size = std::min(RowsOf(schedule, at), run.size), full = run.size / size;
  const auto cut = [&](const TileRun& part) { ForEachRun(schedule, shape, at + 1, end, part, visit); };
  if (full == 1) {
    cut({run.begin, size, run.stride, run.count});
  } else if (!shape.banded() || run.count == 1 || full * size == run.stride) {
    cut({run.begin, size, size, full * run.count});
  } else if (full <= run.count) {
    for (int64_t j = 0; j < full; ++j) cut({run.begin + j * size, size, run.stride, run.count});
  } else {
    for (int64_t i = 0; i < run.count; ++i) cut({run.begin + i * run.stride, size, size, full});
  }
  cut({run.begin + full * size, run.size - full * size, run.stride, run.count});
}

}  // namespace attenio::io

#endif  // ATTENIO_SRC_IO_RUNS_H_
