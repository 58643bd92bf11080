// Exact attention for the rows that no polynomial serves: calls of the executor planned next to the polynomial path.
#ifndef ATTENIO_SRC_APPROX_EXACT_H_
#define ATTENIO_SRC_APPROX_EXACT_H_

#include <string>

#include "exec/run.h"

namespace attenio::approx {

struct ExactOptions {
  const Machine* machine = nullptr;
  std::string kernel;
  int workers = 1;
  int64_t tile_rows = 0;  // rows of one task; 0: as the solver says
  Packing packing = Packing::kHead;
};

// `desc` with every default filled in.
Result<Problem> PlanExact(const AttentionDesc& desc, const ExactOptions& options);

// Runs the packing phases and then the query tiles [0, tiles) of a problem with one KV head.
void RunTiles(const Problem& problem, const Operands& operands, std::byte* workspace, int64_t tiles,
              const Parallel& parallel);

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_EXACT_H_
