// Merging partial attention results by their log-sum-exp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attenio/attention.h"

namespace attenio {

Status MergeByLse(std::span<const float* const> outs, std::span<const float* const> lses, int64_t rows, int64_t dim, float* out, float* lse) {
  if (outs.empty() || outs.size() != lses.size()) {
    return Status::Error(Code::kInvalidArgument, "outs has %zu parts and lses %zu, expected the same number, at least 1", outs.size(), lses.size());
  }
  if (rows < 0 || dim < 0) return Status::Error(Code::kInvalidArgument, "rows %lld and dim %lld, expected 0 or more", static_cast<long long>(rows), static_cast<long long>(dim));
  const auto missing = [](const float* part) { return part == nullptr; };
  if (rows > 0 && (std::any_of(lses.begin(), lses.end(), missing) ||
                   (dim > 0 && (out == nullptr || std::any_of(outs.begin(), outs.end(), missing))))) {
    return Status::Error(Code::kInvalidArgument, "outs, lses and out must not be null");
  }
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  for (int64_t r = 0; r < rows; ++r) {
    double max = kNone;
    for (const float* l : lses) max = l[r] > max || std::isnan(l[r]) ? l[r] : max;
    double total = 0;
    for (const float* l : lses) total += l[r] == static_cast<float>(kNone) ? 0 : std::exp(l[r] - max);
    for (int64_t c = 0; c < dim; ++c) {
      double sum = 0;
      for (size_t part = 0; part < outs.size(); ++part) {
        if (lses[part][r] != static_cast<float>(kNone)) sum += std::exp(lses[part][r] - max) / total * outs[part][r * dim + c];
      }
      out[r * dim + c] = static_cast<float>(sum);
    }
    if (lse != nullptr) lse[r] = total == 0 ? static_cast<float>(kNone) : static_cast<float>(max + std::log(total));
  }
  return {};
}

}  // namespace attenio
