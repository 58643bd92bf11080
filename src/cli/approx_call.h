// Approximate attention as the commands run it: plan, workspace, what every row was certified to, and what is said about it.
#ifndef ATTENIO_SRC_CLI_APPROX_CALL_H_
#define ATTENIO_SRC_CLI_APPROX_CALL_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "attenio/approx.h"
#include "cli/verify.h"

namespace attenio::cli {

class ApproxCall {
 public:
  ApproxCall(const AttentionDesc& desc, const ApproxOptions& options);

  const Status& status() const { return status_; }
  const ApproxPlan& plan() const { return *plan_; }
  const ApproxReport& report() const { return report_; }
  size_t workspace_bytes() const { return workspace_.size(); }
  Status Run(const Operands& operands, const Parallel& parallel);

  // Of the last run.
  bool IsExact(const RowIndex& row) const { return degrees_[At(row)] < 0; }
  double RowBound(const RowIndex& row) const { return double{bounds_[At(row)]}; }
  // "polynomial", "groups" or "exact": what most rows took.
  const char* path() const;

  // Features and score bounds of each degree, for --explain.
  std::string Explain() const;
  // One sentence: degree, certified bound, share of exact rows and why.
  std::string Sentence() const;
  // The same for machines: degree, features, max_error, certified, exact_rows, ..., reason.
  nlohmann::ordered_json Json() const;

 private:
  size_t At(const RowIndex& row) const;

  AttentionDesc desc_;
  ApproxOptions options_;
  Status status_;
  std::optional<ApproxPlan> plan_;
  std::vector<std::byte> workspace_;
  std::vector<float> bounds_;
  std::vector<int8_t> degrees_;
  ApproxReport report_;
};

// max - min of each value column, per (batch, KV head): [(batch * kv_heads + kv_head) * v_dim + column].
std::vector<double> ValueRanges(const AttentionDesc& desc, const Operands& operands);

// The rows against the oracle: exact rows by the tolerance rule, the others by their certificate.
Verdict VerifyApprox(const AttentionDesc& desc, const Operands& operands, const ApproxCall& call,
                     const std::vector<RowIndex>& rows, DType probability_type);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_APPROX_CALL_H_
