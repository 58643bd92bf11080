// Element types and small value types that every part of attenio speaks.
#ifndef ATTENIO_TYPES_H_
#define ATTENIO_TYPES_H_

#include <cstdint>
#include <limits>

namespace attenio {

// Storage only: 16 bits of an IEEE binary16 or a bfloat16. Conversions round to nearest even (src/base/bits.h).
struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

// kBool is a byte per element, nonzero = true; it is a mask type only.
enum class DType : uint8_t { kF32, kBF16, kF16, kBool };

constexpr int64_t ElementBytes(DType t) {
  return t == DType::kF32 ? 4 : t == DType::kBool ? 1 : 2;
}

// Unit roundoff of a floating-point type (round to nearest).
constexpr double UnitRoundoff(DType t) {
  return t == DType::kF32 ? 0x1p-24 : t == DType::kBF16 ? 0x1p-8 : t == DType::kF16 ? 0x1p-11 : 0;
}

constexpr const char* Name(DType t) {
  return t == DType::kF32 ? "f32" : t == DType::kBF16 ? "bf16" : t == DType::kF16 ? "f16" : "bool";
}

// Half-open interval of rows, keys, dims or features.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  constexpr int64_t size() const { return end - begin; }
  constexpr bool empty() const { return end <= begin; }
  friend constexpr bool operator==(const Range&, const Range&) = default;
};

}  // namespace attenio

#endif  // ATTENIO_TYPES_H_
