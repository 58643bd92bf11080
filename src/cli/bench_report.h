// How `attenio bench` shows what it measured: a JSON line or a line of text for each implementation and case.
#ifndef ATTENIO_SRC_CLI_BENCH_REPORT_H_
#define ATTENIO_SRC_CLI_BENCH_REPORT_H_

#include "cli/bench_options.h"

namespace attenio::cli {

struct BenchReport {
  const BenchOptions& options;
  const BenchCase& bench_case;
  double flops;
  int threads;

  // Prints and flushes one line, whole: what is measured is kept, whatever happens next.
  void Print(const Entry& entry) const;
};

// How the predictions of --project compare with what was measured.
class ProjectionSummary {
 public:
  void Add(const std::string& bench_case, const Entry& entry);
  // Nothing when there was no prediction. In JSON mode on stderr, since stdout is data.
  void Print(bool json) const;

 private:
  struct Row {
    std::string name;
    double ratio;  // predicted / measured
  };
  std::vector<Row> rows_;
};

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_BENCH_REPORT_H_
