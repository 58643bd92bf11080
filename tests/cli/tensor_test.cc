#include "cli/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/error.h"

namespace attenio::cli {
namespace {

Tensor Doubles(const std::vector<double>& values) {
  Tensor t = MakeTensor(FileType::kF64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t.data<double>()[i] = values[i];
  return t;
}

TEST(Tensor, ConvertsOnceFromDouble) {
  // Just above the tie between 1 and the next bf16 / f16: rounding to f32 first would land on the tie and go down.
  const double above = 0x1p-40;
  EXPECT_EQ(Convert(Doubles({1 + 0x1p-8 + above}), FileType::kBF16).At(0), 1 + 0x1p-7);
  EXPECT_EQ(Convert(Doubles({1 + 0x1p-8}), FileType::kBF16).At(0), 1.0);
  EXPECT_EQ(Convert(Doubles({1 + 0x1p-11 + above}), FileType::kF16).At(0), 1 + 0x1p-10);
  EXPECT_EQ(Convert(Doubles({-(1 + 0x1p-11 - above)}), FileType::kF16).At(0), -1.0);
}

TEST(Tensor, ConvertsSpecialValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor special = Doubles({inf, -inf, std::nan(""), 1e300, -0.0});
  for (FileType type : {FileType::kF32, FileType::kBF16, FileType::kF16}) {
    const Tensor t = Convert(special, type);
    EXPECT_EQ(t.At(0), inf);
    EXPECT_EQ(t.At(1), -inf);
    EXPECT_TRUE(std::isnan(t.At(2)));
    EXPECT_EQ(t.At(3), inf);
    EXPECT_TRUE(std::signbit(t.At(4)));
  }
  EXPECT_THROW((void)Convert(special, FileType::kI64), InputError);
}

TEST(Tensor, SizesThatOverflowAreRefused) {
  EXPECT_THROW((void)MakeTensor(FileType::kF32, {int64_t{1} << 62, 2}), InputError);
  EXPECT_FALSE(TensorBytes(FileType::kF64, {int64_t{1} << 60}));
  EXPECT_FALSE(TensorBytes(FileType::kF32, {-1}));
  EXPECT_EQ(TensorBytes(FileType::kF32, {}), 4);
  EXPECT_EQ(TensorBytes(FileType::kF32, {0, 5}), 0);
}

}  // namespace
}  // namespace attenio::cli
