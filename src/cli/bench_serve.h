// `attenio bench --serve`: measures one case at a time on request, so that another program can interleave attenio with others.
#ifndef ATTENIO_SRC_CLI_BENCH_SERVE_H_
#define ATTENIO_SRC_CLI_BENCH_SERVE_H_

#include <istream>
#include <string>
#include <vector>

#include "cli/bench_case.h"
#include "cli/command.h"

namespace attenio::cli {

struct ServeOptions {
  std::vector<BenchCase> cases;
  std::string impl;
  RunOptions run;
};

// Every line "CASE SECONDS" of `input` is answered on stdout with one JSON line: impl, case, threads, median_ms, min_ms, max_ms,
// runs, gflops, gbps, note, sig; or "skip" with the reason. Inputs are kept until another case or "- 0" comes; returns at the end.
void Serve(const ServeOptions& options, std::istream& input);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_BENCH_SERVE_H_
