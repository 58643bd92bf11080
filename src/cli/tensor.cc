#include "cli/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/bits.h"
#include "base/math.h"
#include "cli/error.h"

namespace attenio::cli {
namespace {

struct TypeRow {
  const char* name;
  int64_t bytes;
};
constexpr TypeRow kTypes[] = {{"f32", 4}, {"bf16", 2}, {"f16", 2}, {"f64", 8}, {"bool", 1}, {"i32", 4}, {"i64", 8}};

template <class T>
T Load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

template <class T>
void Store(std::byte* p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

// f32 with the last bit set when it is inexact, so that a second rounding to 16 bits gives what one rounding would.
float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

void StoreAs(FileType type, double value, std::byte* p) {
  switch (type) {
    case FileType::kF64: return Store(p, value);
    case FileType::kF32: return Store(p, static_cast<float>(value));
    case FileType::kBF16: return Store(p, ToBF16(RoundToOdd(value)));
    case FileType::kF16: return Store(p, ToF16(RoundToOdd(value)));
    case FileType::kBool: return Store<uint8_t>(p, value != 0);
    default: Refuse("cannot convert to {}", Name(type));
  }
}

}  // namespace

int64_t ElementBytes(FileType type) { return kTypes[static_cast<int>(type)].bytes; }
const char* Name(FileType type) { return kTypes[static_cast<int>(type)].name; }

std::optional<DType> ToDType(FileType type) {
  switch (type) {
    case FileType::kF32: return DType::kF32;
    case FileType::kBF16: return DType::kBF16;
    case FileType::kF16: return DType::kF16;
    case FileType::kBool: return DType::kBool;
    default: return std::nullopt;
  }
}

FileType ToFileType(DType type) {
  switch (type) {
    case DType::kBF16: return FileType::kBF16;
    case DType::kF16: return FileType::kF16;
    case DType::kBool: return FileType::kBool;
    default: return FileType::kF32;
  }
}

std::optional<int64_t> TensorBytes(FileType type, const std::vector<int64_t>& shape) {
  // Zero sizes may stand beside sizes whose product overflows; such a shape is refused too.
  int64_t bytes = ElementBytes(type);
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
    } else if (!MultiplyInto(&bytes, size)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes;
}

int64_t Tensor::elements() const { return static_cast<int64_t>(bytes.size()) / ElementBytes(type); }

double Tensor::At(int64_t i) const {
  const std::byte* p = bytes.data() + i * ElementBytes(type);
  switch (type) {
    case FileType::kF32: return Load<float>(p);
    case FileType::kBF16: return ToFloat(Load<BF16>(p));
    case FileType::kF16: return ToFloat(Load<F16>(p));
    case FileType::kF64: return Load<double>(p);
    case FileType::kBool: return Load<uint8_t>(p) != 0;
    case FileType::kI32: return Load<int32_t>(p);
    case FileType::kI64: return static_cast<double>(Load<int64_t>(p));
  }
  return 0;
}

Tensor MakeTensor(FileType type, std::vector<int64_t> shape) {
  const std::optional<int64_t> bytes = TensorBytes(type, shape);
  if (!bytes) Refuse("a tensor of shape {} does not fit into 64 bits", ShapeText(shape));
  return {type, std::move(shape), std::vector<std::byte>(static_cast<size_t>(*bytes))};
}

Tensor Convert(const Tensor& tensor, FileType type) {
  if (tensor.type == type) return tensor;
  Tensor out = MakeTensor(type, tensor.shape);
  const int64_t count = tensor.elements();
  const int64_t step = ElementBytes(type);
  for (int64_t i = 0; i < count; ++i) StoreAs(type, tensor.At(i), out.bytes.data() + i * step);
  return out;
}

std::string ShapeText(const std::vector<int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

}  // namespace attenio::cli
