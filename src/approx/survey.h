// One look at the operands of a KV head: where the keys lie, how far they and the queries reach, which range the values have.
#ifndef ATTENIO_SRC_APPROX_SURVEY_H_
#define ATTENIO_SRC_APPROX_SURVEY_H_

#include <cstdint>

#include "kernels/kernels.h"

namespace attenio::approx {

// Sums over a range of keys; arrays are the caller's. Non-finite input makes the sums non-finite.
struct KeySums {
  double* key = nullptr;       // qk_dim: sum of k
  double* value = nullptr;     // v_dim: sum of v
  float* value_min = nullptr;  // v_dim
  float* value_max = nullptr;
};
void SurveyKeys(const RowView& k, const RowView& v, int64_t count, int64_t qk_dim, int64_t v_dim, const KeySums& out);

// norm[r] >= |row r - shift| (shift may be nullptr), by less than 1e-5 of it; +inf or NaN where the row is not finite.
void RowNorms(const RowView& rows, int64_t count, int64_t dim, const float* shift, float* norm);

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_SURVEY_H_
