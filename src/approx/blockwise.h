// Approximation with its own choice for every (query row, group of keys).
#ifndef ATTENIO_SRC_APPROX_BLOCKWISE_H_
#define ATTENIO_SRC_APPROX_BLOCKWISE_H_

#include "approx/head.h"

namespace attenio::approx {

// Query rows that a worker decides for and computes together: enough that every group finds whole panels of rows.
inline constexpr int64_t kTileRows = 42 * kQueryPanel;

// Counts of one tile of rows.
struct Tally {
  int64_t kinds[4] = {};  // skip, mean, polynomial, exact (row, group) pairs
  double exact_keys = 0;  // (row, key) pairs computed exactly
  double certified = 0;   // largest
};

// False when no gain is promised: nothing has been written then, and everything should run exactly. Rows that cannot be
// certified are marked kExactRow and left to the caller.
bool RunBlockwise(const Head& head, const Findings& findings);

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_BLOCKWISE_H_
