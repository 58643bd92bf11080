// The rows of `attenio io --method poly`: polynomial attention in every regime beside exact attention.
#ifndef ATTENIO_SRC_CLI_IO_POLY_H_
#define ATTENIO_SRC_CLI_IO_POLY_H_

#include <vector>

#include "cli/io_report.h"

namespace attenio::cli {

// For each degree one row per regime that fits `level` alone, managed explicitly, at its best blocks; `dataflow` names regime and
// degree. Accumulators, state and features take out_bytes each.
std::vector<IoRow> PolyRows(const std::vector<int>& degrees, const MemoryLevel& level, const IoProblem& problem,
                            bool simulate);

// Features, state and the lengths from which a degree moves and computes less than exact attention: one line for each.
void PrintPolyBreakEven(const std::vector<int>& degrees, const IoProblem& problem);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_IO_POLY_H_
