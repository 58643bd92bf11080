#include "cli/approx_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/oracle.h"
#include "api/validate.h"
#include "base/bits.h"
#include "cli/command.h"

namespace attenio::cli {

ApproxCall::ApproxCall(const AttentionDesc& desc, const ApproxOptions& options) : desc_(desc), options_(options) {
  Result<ApproxPlan> plan = ApproxPlan::Create(desc, options);
  status_ = plan.status();
  if (!plan.ok()) return;
  plan_ = *plan;
  workspace_.resize(plan_->workspace_bytes());
  const auto rows = static_cast<size_t>(desc.batch * desc.q_heads * desc.q_len);
  bounds_.resize(rows);
  degrees_.resize(rows);
}

Status ApproxCall::Run(const Operands& operands, const Parallel& parallel) {
  report_.row_bound = bounds_.data();
  report_.row_degree = degrees_.data();
  return plan_->Run(operands, workspace_, parallel, &report_);
}

size_t ApproxCall::At(const RowIndex& row) const {
  return static_cast<size_t>((row.batch * desc_.q_heads + row.head) * desc_.q_len + row.query);
}

const char* ApproxCall::path() const {
  if (report_.exact_rows * 2 > report_.rows || report_.rows == 0) return "exact";
  return options_.method == ApproxMethod::kGroups ? "groups" : "polynomial";
}

std::string ApproxCall::Explain() const {
  std::string text = fmt::format("max_error    {:g} of the value range of each column\n", options_.max_error);
  if (options_.method == ApproxMethod::kGroups)
    return text + "method       keys in groups: skip, mean, polynomial or exact for each row and group\n";
  if (plan_->largest_bound() > 0) {
    text += fmt::format("certifiable  rows whose scores lie within {:.3g} of their centre\n", plan_->largest_bound());
  }
  for (int g = 0; g <= options_.max_degree && plan_->features(g) <= 100000; ++g) {
    text += fmt::format("degree {:<5} {} features\n", g, plan_->features(g));
  }
  return text;
}

std::string ApproxCall::Sentence() const {
  const ApproxReport& r = report_;
  const double share = 100 * r.exact_fraction();
  if (r.exact_rows == r.rows)
    return fmt::format("the exact path ran: {}", *r.reason != '\0' ? r.reason : "there is no row");
  std::string text = fmt::format(
      "degree {}, {} features, certified error {:.3g} of the value range (max_error {:g}), {:.1f} % of the rows exact",
      r.degree, r.features, r.certified, options_.max_error, share);
  if (r.exact_rows > 0) text += fmt::format(" ({})", r.reason);
  if (r.outlier_keys > 0) text += fmt::format(", {} outlier keys added exactly", r.outlier_keys);
  const double pairs = static_cast<double>(r.blocks_skipped + r.blocks_poly + r.blocks_exact) / 100;
  if (pairs > 0) {
    text += fmt::format(", of the groups {:.1f} % skipped, {:.1f} % approximated, {:.1f} % exact",
                        static_cast<double>(r.blocks_skipped) / pairs, static_cast<double>(r.blocks_poly) / pairs,
                        static_cast<double>(r.blocks_exact) / pairs);
  }
  return text;
}

nlohmann::ordered_json ApproxCall::Json() const {
  const ApproxReport& r = report_;
  return {{"path", path()},
          {"max_error", options_.max_error},
          {"degree", r.degree},
          {"features", r.features},
          {"certified", r.certified},
          {"score_bound", r.score_bound},
          {"exact_rows", r.exact_fraction()},
          {"outlier_keys", r.outlier_keys},
          {"blocks_skipped", r.blocks_skipped},
          {"blocks_poly", r.blocks_poly},
          {"blocks_exact", r.blocks_exact},
          {"predicted_gain", r.predicted_gain},
          {"reason", r.reason}};
}

std::vector<double> ValueRanges(const AttentionDesc& desc, const Operands& operands) {
  const Result<AttentionDesc> resolved = Resolve(desc);
  Require(resolved.ok() ? Status() : resolved.status());
  const AttentionDesc& d = *resolved;
  std::vector<double> ranges;
  for (int64_t b = 0; b < d.batch; ++b) {
    for (int64_t h = 0; h < d.kv_heads; ++h) {
      std::vector<double> low(static_cast<size_t>(d.v_dim), std::numeric_limits<double>::infinity()),
          high(low.size(), -low.front());
      WithFloatType(d.dtype, [&](auto* type) {
        const auto* head = static_cast<decltype(type)>(operands.v) + b * d.v.batch + h * d.v.head;
        for (int64_t j = 0; j < d.kv_len; ++j) {
          for (size_t c = 0; c < low.size(); ++c) {
            const double x = double{ToFloat(head[j * d.v.row + static_cast<int64_t>(c) * d.v.element])};
            low[c] = std::min(low[c], x);
            high[c] = std::max(high[c], x);
          }
        }
      });
      for (size_t c = 0; c < low.size(); ++c) ranges.push_back(std::max(0.0, high[c] - low[c]));
    }
  }
  return ranges;
}

Verdict VerifyApprox(const AttentionDesc& desc, const Operands& operands, const ApproxCall& call,
                     const std::vector<RowIndex>& rows, DType probability_type) {
  Verdict verdict;
  const std::vector<double> ranges = ValueRanges(desc, operands);
  Progress progress("verifying row");
  for (const RowIndex& row : rows) {
    progress.Update(verdict.rows, static_cast<int64_t>(rows.size()));
    if (call.IsExact(row)) {
      VerifyRow(desc, operands, row, probability_type, &verdict);
    } else {
      const int64_t head = row.batch * desc.kv_heads + row.head / (desc.q_heads / desc.kv_heads);
      std::vector<double> allowed(ranges.begin() + head * desc.v_dim, ranges.begin() + (head + 1) * desc.v_dim);
      for (double& a : allowed) a *= call.RowBound(row);
      VerifyRowWithin(desc, operands, row, allowed, &verdict);
    }
  }
  return verdict;
}

}  // namespace attenio::cli
