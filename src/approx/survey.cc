#include "approx/survey.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/bits.h"

namespace attenio::approx {
namespace {

constexpr int kLanes = 16;  // independent sums, so that the compiler may vectorise without reordering any

template <class T>
float Norm(const T* row, int64_t stride, int64_t dim, const float* shift) {
  float sum[kLanes] = {};
  int64_t c = 0;
  for (; c + kLanes <= dim; c += kLanes) {
    for (int i = 0; i < kLanes; ++i) {
      const float x = ToFloat(row[(c + i) * stride]) - (shift != nullptr ? shift[c + i] : 0.0f);
      sum[i] += x * x;
    }
  }
  for (int i = 0; c < dim; ++c, ++i) {
    const float x = ToFloat(row[c * stride]) - (shift != nullptr ? shift[c] : 0.0f);
    sum[i] += x * x;
  }
  double total = 0;
  for (float s : sum) total += s;
  // dim / 16 + 3 roundings of 6e-8 each in the sum, half of that in the root; squares below the normal range lose at most
  // dim 2^-149, whose root is 1e-22 sqrt(dim).
  const double inflate = 1 + 1e-7 * (static_cast<double>(dim) / kLanes + 4);
  return static_cast<float>((std::sqrt(total) + 4e-22 * std::sqrt(static_cast<double>(dim))) * inflate);
}

}  // namespace

void SurveyKeys(const RowView& k, const RowView& v, int64_t count, int64_t qk_dim, int64_t v_dim, const KeySums& out) {
  std::fill_n(out.key, qk_dim, 0.0);
  std::fill_n(out.value, v_dim, 0.0);
  std::fill_n(out.value_min, v_dim, std::numeric_limits<float>::infinity());
  std::fill_n(out.value_max, v_dim, -std::numeric_limits<float>::infinity());
  WithFloatType(k.dtype, [&](auto* type) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    for (int64_t j = 0; j < count; ++j) {
      const T* key = k.Row<T>(j);
      for (int64_t c = 0; c < qk_dim; ++c) out.key[c] += ToFloat(key[c * k.element]);
      const T* value = v.Row<T>(j);
      for (int64_t c = 0; c < v_dim; ++c) {
        const float x = ToFloat(value[c * v.element]);
        out.value[c] += x;
        out.value_min[c] = std::min(out.value_min[c], x);
        out.value_max[c] = std::max(out.value_max[c], x);
      }
    }
  });
}

void RowNorms(const RowView& rows, int64_t count, int64_t dim, const float* shift, float* norm) {
  WithFloatType(rows.dtype, [&](auto* type) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    for (int64_t r = 0; r < count; ++r) norm[r] = Norm(rows.Row<T>(r), rows.element, dim, shift);
  });
}

}  // namespace attenio::approx
