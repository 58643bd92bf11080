// bf16 and f16 to and from f32, round to nearest even, NaN kept quiet. Own conversions, because compilers and SIMD libraries
// differ in rounding (some truncate).
#ifndef ATTENIO_SRC_BASE_BITS_H_
#define ATTENIO_SRC_BASE_BITS_H_

#include <bit>
#include <cstdint>

#include "attenio/types.h"

namespace attenio {

inline float ToFloat(float x) { return x; }

inline float ToFloat(BF16 h) { return std::bit_cast<float>(static_cast<uint32_t>(h.bits) << 16); }

inline float ToFloat(F16 h) {
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000u) << 16;
  const uint32_t magnitude = h.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // Shift into place and multiply by 2^112: that renormalises subnormals exactly.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | sign);
}

inline BF16 ToBF16(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(u >> 16 | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
}

inline F16 ToF16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint16_t sign = static_cast<uint16_t>(u >> 16 & 0x8000u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu))};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {  // subnormal result: adding 0.5 leaves |x| / 2^-24, rounded to nearest even, in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u;
  return {static_cast<uint16_t>(sign | rounded >> 13)};
}

inline void FromFloat(float x, float* out) { *out = x; }
inline void FromFloat(float x, BF16* out) { *out = ToBF16(x); }
inline void FromFloat(float x, F16* out) { *out = ToF16(x); }

// Calls f with a null pointer of the C++ type of a floating-point dtype: f(static_cast<const BF16*>(nullptr)).
template <class F>
decltype(auto) WithFloatType(DType type, F&& f) {
  switch (type) {
    case DType::kBF16: return f(static_cast<const BF16*>(nullptr));
    case DType::kF16: return f(static_cast<const F16*>(nullptr));
    default: return f(static_cast<const float*>(nullptr));
  }
}

}  // namespace attenio

#endif  // ATTENIO_SRC_BASE_BITS_H_
