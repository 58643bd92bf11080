// Integer helpers that say what they mean, and 64-bit arithmetic that notices overflow.
#ifndef ATTENIO_SRC_BASE_MATH_H_
#define ATTENIO_SRC_BASE_MATH_H_

#include <cstdint>

namespace attenio {

// For a >= 0, b >= 1; up to the largest a, because schedules are the users' text.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }
constexpr int64_t RoundDown(int64_t a, int64_t b) { return a / b * b; }

// *out = *out * factor; false (and *out untouched) when that overflows.
inline bool MultiplyInto(int64_t* out, int64_t factor) {
  int64_t product;
  if (__builtin_mul_overflow(*out, factor, &product)) return false;
  *out = product;
  return true;
}

inline bool AddInto(int64_t* out, int64_t term) {
  int64_t sum;
  if (__builtin_add_overflow(*out, term, &sum)) return false;
  *out = sum;
  return true;
}

// a + b, held at the ends of the 64-bit range.
inline int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? INT64_MIN : INT64_MAX;
}

}  // namespace attenio

#endif  // ATTENIO_SRC_BASE_MATH_H_
