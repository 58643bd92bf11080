// The vector exponential of every Highway target that this machine runs, against f64. exp_long_test.cc includes this file to go
// through every float instead of a sample.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/exp_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// out[i] = f(in[i]) for a multiple of 16 elements.
void Exp2Of(const float* in, float* out, size_t n) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(Exp2(d, hn::LoadU(d, in + i)), d, out + i);
}
void TanhOf(const float* in, float* out, size_t n) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(Tanh(d, hn::LoadU(d, in + i)), d, out + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attenio {
namespace {

HWY_EXPORT(Exp2Of);
HWY_EXPORT(TanhOf);

constexpr size_t kBatch = 4096;

// Calls f(name of the target) with each target forced.
template <class F>
void ForEachTarget(F f) {
  for (int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    f(std::string(hwy::TargetName(target)));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Distance of a positive normal result from the expected value, in units in the last place of the expected value's binade.
double Ulps(float got, double expected) {
  const uint32_t exponent = std::bit_cast<uint32_t>(static_cast<float>(expected)) >> 23;
  return std::abs(got - expected) * std::bit_cast<double>(uint64_t{1023 + 127 + 23 - exponent} << 52);
}

// Largest error of 2^x over the floats with bits [first, last), every `step`th.
double WorstExp2(uint32_t first, uint32_t last, uint32_t step) {
  static float in[kBatch], out[kBatch];
  double worst = 0;
  for (uint64_t at = first; at < last;) {
    size_t n = 0;
    for (; n < kBatch; ++n, at += step) in[n] = std::bit_cast<float>(at < last ? static_cast<uint32_t>(at) : first);
    HWY_DYNAMIC_DISPATCH(Exp2Of)(in, out, kBatch);
    for (size_t i = 0; i < n; ++i) {
      // So close to 0 the result is 1 within half an ulp, and most floats are: no need to ask the library.
      const bool tiny = std::abs(in[i]) < 0x1p-26f;
      worst = std::max(worst, tiny && out[i] == 1 ? 0.5 : Ulps(out[i], std::exp2(double{in[i]})));
    }
  }
  return worst;
}

constexpr uint32_t kMinus126 = 0xc2fc0000u, kPlus127 = 0x42fe0000u;

#ifdef ATTENIO_EVERY_FLOAT
TEST(Exp2, WithinTwoUlpForEveryFloat) {
  ForEachTarget([](const std::string& target) {
    const double below = WorstExp2(0x80000000u, kMinus126 + 1, 1), above = WorstExp2(0, kPlus127 + 1, 1);
    std::printf("%s: largest error %.3f ulp for x <= 0, %.3f ulp for x >= 0\n", target.c_str(), below, above);
    EXPECT_LE(below, 2) << target;
    EXPECT_LE(above, 2) << target;
  });
}
#else

TEST(Exp2, WithinTwoUlp) {
  ForEachTarget([](const std::string& target) {
    EXPECT_LE(WorstExp2(0x80000000u, kMinus126 + 1, 997), 2) << target;
    EXPECT_LE(WorstExp2(0, kPlus127 + 1, 997), 2) << target;
    EXPECT_LE(WorstExp2(0xbf000000u, kMinus126 + 1, 101), 2) << target;
  });
}

TEST(Exp2, SpecialValues) {
  ForEachTarget([](const std::string& target) {
    const float kInfinity = std::numeric_limits<float>::infinity();
    float in[16] = {0.0f, -0.0f, 1.0f, -1.0f, -126.0f, std::nextafter(-126.0f, -kInfinity), -127.0f, -150.0f,
                    -1e30f, -kInfinity, std::numeric_limits<float>::quiet_NaN(), -1e-40f, 127.0f, -125.5f, 10.0f, -20.0f};
    float out[16];
    HWY_DYNAMIC_DISPATCH(Exp2Of)(in, out, 16);
    for (const int exact : {0, 1, 2, 3, 4, 12, 14, 15}) EXPECT_EQ(out[exact], std::exp2(in[exact])) << target << " " << in[exact];
    for (const int zero : {5, 6, 7, 8, 9}) EXPECT_EQ(out[zero], 0) << target << " " << in[zero];
    EXPECT_TRUE(std::isnan(out[10])) << target;
    EXPECT_EQ(out[11], 1) << target;
  });
}

// Relative error of tanh, which is what keeps softcap from losing small scores.
TEST(Tanh, SmallRelativeError) {
  ForEachTarget([](const std::string& target) {
    static float in[kBatch], out[kBatch];
    double worst = 0;
    for (uint64_t at = 0; at < 0x42000000u;) {
      for (size_t i = 0; i < kBatch; ++i, at += 331) in[i] = std::bit_cast<float>(static_cast<uint32_t>(at | (i % 2) << 31));
      HWY_DYNAMIC_DISPATCH(TanhOf)(in, out, kBatch);
      for (size_t i = 0; i < kBatch; ++i) {
        if (std::abs(in[i]) >= 0x1p-100f) worst = std::max(worst, std::abs(out[i] / std::tanh(double{in[i]}) - 1));
      }
    }
    EXPECT_LE(worst, 4 * 0x1p-23) << target;
    float special[16] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN(), 0.0f, -0.0f};
    HWY_DYNAMIC_DISPATCH(TanhOf)(special, special, 16);
    EXPECT_NEAR(special[0], 1, 0x1p-23) << target;
    EXPECT_NEAR(special[1], -1, 0x1p-23) << target;
    EXPECT_TRUE(std::isnan(special[2])) << target;
    EXPECT_EQ(special[3], 0) << target;
    EXPECT_TRUE(std::signbit(special[4])) << target;
  });
}

#endif  // ATTENIO_EVERY_FLOAT

}  // namespace
}  // namespace attenio
#endif
