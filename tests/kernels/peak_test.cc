#include "kernels/peak.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/rates.h"

namespace attenio {
namespace {

TEST(Peak, LoopsComputeWhatTheyClaim) {
  alignas(64) static uint64_t data[1024] = {};
  for (uint64_t i = 0; i < 1024; ++i) data[i] = i * i + 1;
  for (const PeakLoops& loops : AllPeakLoops()) {
    // Chain c starts at c and halves its distance to 1: all of them together end at the number of chains.
    const float sum = loops.fma(200);
    EXPECT_GE(sum, 14.0f) << loops.name;
    EXPECT_LE(sum, 16.0f) << loops.name;
    EXPECT_GE(loops.flops_per_iteration, 2 * 14 * 4) << loops.name;
    data[512] = 1;
    const uint64_t before = loops.read(data, sizeof(data));
    data[512] = 1 ^ before;  // a word of lane 0 turns up in the result
    EXPECT_EQ(loops.read(data, sizeof(data)), 0u) << loops.name;
  }
}

TEST(Peak, IsThatOfTheKernelsInstructions) {
  for (const PeakLoops& loops : AllPeakLoops()) {
    EXPECT_EQ(PeakLoopsFor(std::string("f32-") + loops.name), &loops);
  }
  if (!AllPeakLoops().empty()) {
    EXPECT_EQ(PeakLoopsFor("plain"), &AllPeakLoops().front());
  }
}

TEST(Peak, OneProductIsAWholePartOfAnIteration) {
  for (const PeakLoops& loops : AllPeakLoops()) {
    const double products = loops.flops_per_iteration / loops.flops_per_product;
    EXPECT_TRUE(products == 14 || products == 16) << loops.name;
    if (loops.dot != nullptr) {
      EXPECT_EQ(loops.flops_per_dot_iteration / (2 * loops.flops_per_product), 12);
    }
  }
}

TEST(Peak, DependentAddsAreAllDone) {
  if (DependentAdds(8) == 0) GTEST_SKIP() << "not known for this processor";
  for (const int64_t count : {0, 8, 80, 8000}) EXPECT_EQ(DependentAdds(count), count);
}

}  // namespace
}  // namespace attenio
