// The rows of `attenio io`: what each level and each dataflow moves, against its bound.
#ifndef ATTENIO_SRC_CLI_IO_REPORT_H_
#define ATTENIO_SRC_CLI_IO_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "attenio/io.h"

namespace attenio::cli {

struct IoProblem {
  Shape shape;
  Machine machine;
  SolveOptions options;

  double heads() const { return static_cast<double>(shape.batch) * static_cast<double>(shape.kv_heads); }
};

// Bytes are those of all heads.
struct IoRow {
  std::string level;
  std::string dataflow;
  std::string schedule;
  int64_t fast_bytes = 0;
  double predicted = 0;
  std::optional<double> simulated;  // a cache: line-granular LRU; explicit memory: the scratchpad; empty: not asked for
  double bound = 0;
  std::string bound_kind;           // name of the bound
  double solve_us = 0;  // 0: nothing was solved for this row
};

// Line granular simulation of more allowed pairs per head than this takes longer than a person waits (about 10 s).
inline constexpr double kMostSimulatedPairs = 3e8;

// What crosses the outer boundary of a cache when the executor runs the schedule: Predict at level 0 with every buffer of the
// executor allocated and written back. Fills alone are what simulators of caches report.
double PredictedCacheBytes(const Schedule& schedule, const IoProblem& problem);
double PredictedCacheFills(const Schedule& schedule, const IoProblem& problem);

// What crosses the outer boundary of a cache outside the schedule's levels, whose `sharers` threads take successive tiles of a head
// and so sweep K and V together: compulsory where K and V of a head fit, else a sweep for each round of tiles (io::SharedSweepWords).
double PredictedSharedBytes(const Schedule& schedule, const MemoryLevel& level, const IoProblem& problem);

// One row for the last-level cache where the machine has one, then one per level of the schedule, outermost first.
std::vector<IoRow> ScheduleRows(const Schedule& schedule, const IoProblem& problem, double solve_us, int64_t simulate_heads);

// One row per dataflow for `level` alone, its best tile under explicit management; FlashAttention's tile rules among them.
// `names`: "all" or names of dataflows. Throws InputError for an unknown name.
std::vector<IoRow> DataflowRows(const std::vector<std::string>& names, const MemoryLevel& level, const IoProblem& problem,
                                bool simulate);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_IO_REPORT_H_
