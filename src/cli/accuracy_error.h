// Errors of `attenio accuracy`: results against the f64 oracle on a sample of rows, and the divergence of the weights.
#ifndef ATTENIO_SRC_CLI_ACCURACY_ERROR_H_
#define ATTENIO_SRC_CLI_ACCURACY_ERROR_H_

#include <functional>
#include <optional>
#include <vector>

#include "api/oracle.h"
#include "cli/operands.h"
#include "cli/verify.h"

namespace attenio::cli {

// What a problem's sampled rows should be.
struct Reference {
  std::vector<RowIndex> rows;
  std::vector<OracleRow> want;
  std::vector<double> ranges;  // as ValueRanges

  double Range(const AttentionDesc& desc, const RowIndex& row, int64_t column) const;
};
Reference ComputeReference(Problem* problem, const Parallel& parallel);

// All but `relative` and `not_finite` in units of the value range (max - min) of the column.
struct Errors {
  double max = 0, rmse = 0;
  double p50 = 0, p90 = 0, p99 = 0;  // percentiles of the largest error of each row
  double relative = 0;               // |out - want| / |want|, Frobenius
  int64_t not_finite = 0;            // elements
  std::vector<double>
      beyond_rounding;  // of each sampled row the largest, less what an f32 output rounds: for certificates
};
Errors Compare(const Problem& problem, const Reference& reference);

// Mean over rows of sum_j w_j ln(w_j / w'_j) in nats, w the softmax weights and w' those of a method. They are formed by running
// it on the last 32 queries with the unit vectors as values: then the output is the row of weights. `run` computes a problem that
// it is given. Nothing where there are more than `kMostKlKeys` keys, where `run` returns false, or where a weight is not positive
// though the true one is above 1e-30 (then the divergence is infinite).
inline constexpr int64_t kMostKlKeys = 2048;
std::optional<double> WeightDivergence(const Problem& problem, const std::function<bool(Problem*)>& run);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_ACCURACY_ERROR_H_
