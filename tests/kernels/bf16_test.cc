// What is particular to the 16-bit kernels: when they may run, subnormal numbers, the discipline of tiles. What attention means
// is tested for them with all kernels in tests/api.
#include "kernels/bf16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/bits.h"
#include "kernels/amx_bf16.h"
#include "kernels/cpu.h"
#include "support/emulated_tiles.h"
#include "support/problem.h"

namespace attenio {
namespace {

using testing::Problem;
using testing::Random;

AttentionDesc Desc(int64_t q_len, int64_t kv_len, int64_t dim) {
  AttentionDesc d;
  d.dtype = DType::kBF16;
  d.out_dtype = DType::kF32;
  d.q_heads = 2;
  d.q_len = q_len;
  d.kv_len = kv_len;
  d.qk_dim = d.v_dim = dim;
  return d;
}

// The 16-bit kernels that can run here, the emulated one among them.
std::vector<std::string> Usable() {
  std::vector<std::string> names;
  for (const std::string& name : testing::UsableKernels(Desc(1, 1, 1))) {
    if (name.rfind("bf16-", 0) == 0 || name == "amx-emulated") names.push_back(name);
  }
  return names;
}

TEST(Bf16Kernels, ReasonsFollowTheProcessor) {
  for (const KernelChoice& choice : Bf16Kernels()) {
    EXPECT_EQ(choice.kernel != nullptr, choice.reason.empty());
    if (!CpuHasAvx512Bf16()) {
      EXPECT_EQ(choice.kernel, nullptr);
    }
  }
  for (const KernelChoice& choice : AmxBf16Kernels()) {
    EXPECT_EQ(choice.kernel != nullptr, choice.reason.empty());
    if (WhyNoAmx() != nullptr) {
      EXPECT_EQ(choice.kernel, nullptr);
      EXPECT_EQ(choice.reason, WhyNoAmx());
    }
  }
}

// Best first: the tensor unit, pairs on the vector unit, f32.
TEST(Bf16Kernels, RegistryOrder) {
  std::vector<std::string> names;
  for (const KernelChoice& choice : AllKernels()) names.push_back(choice.name);
  const auto at = [&](const char* name) { return std::find(names.begin(), names.end(), name) - names.begin(); };
  if (Bf16Kernels().empty()) GTEST_SKIP() << "not compiled for this architecture";
  EXPECT_LT(at("bf16-amx"), at("bf16-avx512"));
  EXPECT_LT(at("bf16-avx512"), at("f32-avx512"));
  EXPECT_EQ(at("amx-emulated"), static_cast<int64_t>(names.size()));  // by name only
  std::string rejected;
  for (const KernelChoice& choice : AllKernels()) {
    if (choice.kernel == nullptr || choice.kernel->accepts(DType::kBF16, 64, 64) != nullptr) continue;
    EXPECT_EQ(SelectKernel(DType::kBF16, 64, 64, "", &rejected), choice.kernel);
    break;
  }
  EXPECT_EQ(SelectKernel(DType::kF32, 64, 64, "bf16-avx512", &rejected), nullptr);
}

// Tiny numbers are zero to the instructions: the error stays below 2^-126 per key, and products of ordinary ones are unharmed.
TEST(Bf16Kernels, SubnormalNumbersAreZeroAtWorst) {
  for (const std::string& kernel : Usable()) {
    Problem p(Desc(5, 70, 32), 3);
    Random random(4);
    for (int64_t i = 0; i < p.v.size(); ++i) p.v.Set(i, 0x1p-130 * random.Normal());
    for (int64_t i = 0; i < p.k.size(); i += 3) p.k.Set(i, 0x1p-130 * random.Normal());
    RunPlan(&p, {.kernel = kernel});
    for (int64_t i = 0; i < p.out.size(); ++i) EXPECT_LE(std::abs(p.out.Get(i)), 70 * 0x1p-126) << kernel;
    for (int64_t i = 0; i < p.v.size(); ++i) p.v.Set(i, random.Normal());
    RunPlan(&p, {.kernel = kernel});
    ExpectMatchesOracle(p, kernel);
  }
}

// Large scores, one dominating key, sums of many equal weights.
TEST(Bf16Kernels, PeakedAndFlatRows) {
  for (const std::string& kernel : Usable()) {
    for (const double scale : {0.0, 0.01, 1.0, 20.0}) {
      AttentionDesc d = Desc(3, 700, 48);
      d.scale = scale;
      d.lse = true;
      Problem p(d, 5);
      RunPlan(&p, {.kernel = kernel});
      ExpectMatchesOracle(p, kernel + " scale " + std::to_string(scale));
    }
  }
}

TEST(EmulatedTiles, KernelKeepsTheRulesOfTiles) {
  if (!testing::AddEmulatedAmxKernel()) GTEST_SKIP() << "the softmax of the kernel needs AVX512_BF16";
  testing::ThreadTiles() = {};
  for (const int64_t rows : {1, 16, 17, 32, 75}) {
    Problem p(Desc(rows, 90, 40), 6);
    RunPlan(&p, {.kernel = "amx-emulated"});
    ExpectMatchesOracle(p, "emulated");
    EXPECT_FALSE(testing::ThreadTiles().configured) << "tiles must be released";
    EXPECT_EQ(testing::ThreadTiles().faults, 0);
    EXPECT_EQ(testing::ThreadTiles().config.palette, 1) << "the kernel did not run on tiles";
  }
}

TEST(EmulatedTiles, MisuseIsCounted) {
  testing::TileState& t = testing::ThreadTiles();
  t = {};
  testing::TileZero(0);
  EXPECT_EQ(t.faults, 1);  // before Configure
  testing::TileConfigure({});
  testing::TileDot(0, 0, 1);
  EXPECT_EQ(t.faults, 2);  // one tile twice
  testing::TileRelease();
  testing::TileZero(0);
  EXPECT_EQ(t.faults, 3);
  t = {};
}

// One product by hand: order of additions, subnormal operands and results, the zeroed rest of a tile.
TEST(EmulatedTiles, DotFollowsTheDefinition) {
  testing::TileConfigure({});
  BF16 a[16][32] = {}, b[16][32] = {};
  float c[16][16] = {};
  a[2][0] = ToBF16(1), a[2][1] = ToBF16(3), a[2][2] = ToBF16(0x1p-126f), a[2][4] = {1};  // the last one is subnormal
  b[0][2 * 5] = ToBF16(2), b[0][2 * 5 + 1] = ToBF16(5), b[1][2 * 5] = ToBF16(0x1p-1f), b[2][2 * 5] = ToBF16(0x1p127f);
  b[1][2 * 6] = ToBF16(0x1p-1f);
  c[2][5] = 100;
  testing::TileLoad(4, a, 64);
  testing::TileLoad(6, b, 64);
  testing::TileLoad(0, c, 64);
  testing::TileDot(0, 4, 6);
  testing::TileStore(0, c, 64);
  EXPECT_EQ(c[2][5], 117);  // 100 + (1 * 2 + 3 * 5)
  EXPECT_EQ(c[2][6], 0);    // 2^-127 is subnormal
  EXPECT_EQ(c[3][5], 0);
  // Even and odd sums apart: 2^24 + 1 would lose the 1 if it were added to the same sum.
  BF16 x[16][32] = {}, y[16][32] = {};
  x[0][0] = ToBF16(0x1p24f), x[0][1] = ToBF16(1), x[0][3] = ToBF16(1);
  y[0][0] = y[0][1] = y[1][1] = ToBF16(1);
  testing::TileZero(0);
  testing::TileLoad(4, x, 64);
  testing::TileLoad(6, y, 64);
  testing::TileDot(0, 4, 6);
  testing::TileStore(0, c, 64);
  EXPECT_EQ(c[0][0], 0x1p24f + 2);
  testing::TileRelease();
}

}  // namespace
}  // namespace attenio
