// A tensor as a file holds it: element type, shape, row-major bytes.
#ifndef ATTENIO_SRC_CLI_TENSOR_H_
#define ATTENIO_SRC_CLI_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attenio/types.h"

namespace attenio::cli {

// Element types that files may hold and the command reads. Bool is a byte, nonzero = true.
enum class FileType : uint8_t { kF32, kBF16, kF16, kF64, kBool, kI32, kI64 };

int64_t ElementBytes(FileType type);
const char* Name(FileType type);  // "f32", "bf16", "f16", "f64", "bool", "i32", "i64"

// The library's type, or nothing for f64 and integers.
std::optional<DType> ToDType(FileType type);
FileType ToFileType(DType type);

struct Tensor {
  FileType type = FileType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;  // exactly elements() * ElementBytes(type)

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t elements() const;
  // Element `i` in row-major order, as a number (true = 1).
  double At(int64_t i) const;
  template <class T>
  T* data() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
};

// Zeros. Throws InputError when the size overflows.
Tensor MakeTensor(FileType type, std::vector<int64_t> shape);

// Product of `shape` times the element size, or nothing when a size is negative or the product overflows.
std::optional<int64_t> TensorBytes(FileType type, const std::vector<int64_t>& shape);

// The same values as `type`, rounded to nearest even. Throws InputError for integers as a target.
Tensor Convert(const Tensor& tensor, FileType type);

std::string ShapeText(const std::vector<int64_t>& shape);  // "(1, 4, 4096, 64)"

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_TENSOR_H_
