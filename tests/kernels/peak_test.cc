#include "kernels/peak.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace attenio
