// Balance on machines with more threads than this one: the plan's own task list with measured costs, handed out as the executor
// hands it out. For `attenio bench --replay-threads`.
#ifndef ATTENIO_SRC_CLI_BENCH_REPLAY_H_
#define ATTENIO_SRC_CLI_BENCH_REPLAY_H_

#include <cstdint>
#include <vector>

#include "cli/bench_options.h"

namespace attenio::cli {

// Seconds in which `threads` workers finish the phases one after the other; within a phase each task goes to the worker that is
// free first, in order (schedule(dynamic, 1)).
double Makespan(const std::vector<std::vector<double>>& phases, int threads);

// Prints one line for each thread count: makespan over (sum of costs / threads). Costs are those of one worker, the best of
// three, on --replay-heads KV heads that stand for all.
void Replay(const BenchCase& bench_case, const BenchOptions& options);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_BENCH_REPLAY_H_
