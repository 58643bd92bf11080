// The traps of attention semantics, each as a named test, for every kernel of this machine.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/problem.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace attenio {
namespace {

using testing::ExpectMatchesOracle;
using testing::Problem;
using testing::RunPlan;
using testing::UsableKernels;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

AttentionDesc Desc(int64_t q_len, int64_t kv_len, int64_t dim) {
  AttentionDesc d;
  d.q_heads = 4;
  d.kv_heads = 2;
  d.q_len = q_len;
  d.kv_len = kv_len;
  d.qk_dim = d.v_dim = dim;
  d.lse = true;
  return d;
}

// Runs `check` for every kernel and input type that it takes, with its own key blocks and with blocks of 4 and 64 keys.
template <class F>
void ForEveryKernel(AttentionDesc d, F&& check) {
  const bool default_type = d.dtype == DType::kF32;  // tests that say nothing about the type hold for all of them
  for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (!default_type && type != d.dtype) continue;
    d.dtype = type;
    const auto kernels = UsableKernels(d);
    ASSERT_FALSE(kernels.empty());
    for (const std::string& kernel : kernels) {
      for (const char* schedule : {"", "8x4", "30x64"}) {
        Options options;
        options.kernel = kernel;
        options.schedule = schedule;
        SCOPED_TRACE("kernel " + kernel + " schedule '" + schedule + "' type " + Name(type));
        check(d, options);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

void ExpectOracle(const AttentionDesc& d, void (*edit)(Problem*), const char* what) {
  ForEveryKernel(d, [&](const AttentionDesc& typed, const Options& options) {
    Problem p(typed, 1);
    edit(&p);
    RunPlan(&p, options);
    ExpectMatchesOracle(p, what);
  });
}

TEST(Semantics, FullyMaskedRowsAreZero) {
  AttentionDesc d = Desc(5, 70, 16);
  d.mask.dtype = DType::kBool;
  ExpectOracle(d, [](Problem* p) {
    for (int64_t i = 0; i < p->mask.size(); ++i) p->mask.Set(i, i / 70 % 5 != 2);
  }, "row 2 masked");
  ForEveryKernel(d, [&](const AttentionDesc& typed, const Options& options) {
    Problem p(typed, 1);
    for (int64_t i = 0; i < p.mask.size(); ++i) p.mask.Set(i, 0);
    RunPlan(&p, options);
    for (int64_t h = 0; h < 4; ++h) {
      EXPECT_EQ(p.Out(0, h, 3, 7), 0);
      EXPECT_EQ(p.lse[static_cast<size_t>(h * 5 + 3)], -kInf);
    }
  });
}

TEST(Semantics, FullyMaskedRowWithSinkHasTheSinkAsLse) {
  AttentionDesc d = Desc(3, 70, 16);
  d.mask.dtype = DType::kBool;
  d.sinks = true;
  ForEveryKernel(d, [&](const AttentionDesc& typed, const Options& options) {
    Problem p(typed, 1);
    for (int64_t i = 0; i < p.mask.size(); ++i) p.mask.Set(i, 0);
    RunPlan(&p, options);
    EXPECT_EQ(p.Out(0, 1, 1, 1), 0);
    EXPECT_EQ(p.lse[4], p.sinks[1]);
  });
}

TEST(Semantics, SinksOfAnySize) {
  AttentionDesc d = Desc(3, 70, 16);
  d.sinks = true;
  ExpectOracle(d, [](Problem* p) { p->sinks = {-200.0f, 0.5f, 300.0f, -std::numeric_limits<float>::infinity()}; }, "sinks");
}

TEST(Semantics, FirstKeyBlockAllMinusInfinity) {
  AttentionDesc d = Desc(9, 200, 24);
  d.mask.dtype = DType::kF32;
  ExpectOracle(d, [](Problem* p) {
    for (int64_t i = 0; i < p->mask.size(); ++i) p->mask.Set(i, i % 200 < 150 ? -kInf : 0.5);
  }, "150 keys masked first");
}

void PoisonMaskedKeys(Problem* p) {
  const double poison[] = {kNan, kInf, -kInf, 1e10};
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t j = 40; j < 44; ++j) {
      for (int64_t c = 0; c < p->desc.qk_dim; ++c) p->k.Set(p->KIndex(0, h, j, c), poison[j - 40]);
      for (int64_t c = 0; c < p->desc.v_dim; ++c) p->v.Set(p->VIndex(0, h, j, c), poison[(j + 1) % 4]);
    }
  }
}

TEST(Semantics, PoisonUnderABooleanMaskContributesNothing) {
  AttentionDesc d = Desc(9, 100, 24);
  d.mask.dtype = DType::kBool;
  ExpectOracle(d, [](Problem* p) {
    PoisonMaskedKeys(p);
    for (int64_t i = 0; i < p->mask.size(); ++i) p->mask.Set(i, i % 100 < 40 || i % 100 >= 44);
  }, "poison under a boolean mask");
}

TEST(Semantics, PoisonUnderAnAdditiveMaskContributesNothing) {
  for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    AttentionDesc d = Desc(9, 100, 24);
    d.mask.dtype = type;
    d.softcap = 5;
    ExpectOracle(d, [](Problem* p) {
      PoisonMaskedKeys(p);
      for (int64_t i = 0; i < p->mask.size(); ++i) p->mask.Set(i, i % 100 < 40 || i % 100 >= 44 ? 0.25 : -kInf);
    }, "poison under an additive mask");
  }
}

TEST(Semantics, PoisonAboveTheDiagonalReachesOnlyRowsThatAttendIt) {
  AttentionDesc d = Desc(90, 90, 24);
  d.causal = true;
  ExpectOracle(d, PoisonMaskedKeys, "poison under the causal mask");
}

TEST(Semantics, PoisonOutsideTheWindow) {
  AttentionDesc d = Desc(90, 90, 24);
  d.window_left = 10;
  d.window_right = 3;
  ExpectOracle(d, PoisonMaskedKeys, "poison outside the window");
}

TEST(Semantics, PoisonBehindTheUsedLength) {
  static const int64_t used[] = {40};
  AttentionDesc d = Desc(9, 100, 24);
  d.kv_lens = used;
  ExpectOracle(d, PoisonMaskedKeys, "poison behind kv_lens");
}

TEST(Semantics, AttendedNanAndInfinityPropagate) {
  ExpectOracle(Desc(7, 60, 16), [](Problem* p) {
    p->v.Set(p->VIndex(0, 0, 50, 3), kNan);
    p->v.Set(p->VIndex(0, 1, 50, 5), kInf);
  }, "attended NaN and infinity");
}

TEST(Semantics, NanInQStaysInItsRow) {
  ExpectOracle(Desc(20, 60, 16), [](Problem* p) { p->q.Set(p->QIndex(0, 1, 7, 3), kNan); }, "NaN in q");
}

TEST(Semantics, NanInQOfARowWithoutKeysIsZero) {
  AttentionDesc d = Desc(20, 60, 16);
  d.causal = true;
  d.offset = -8;
  ExpectOracle(d, [](Problem* p) { p->q.Set(p->QIndex(0, 1, 7, 3), kNan); }, "NaN in a row without keys");
}

TEST(Semantics, LowestFiniteMaskGivesTheMean) {
  for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    AttentionDesc d = Desc(3, 70, 16);
    d.mask.dtype = type;
    const double lowest = type == DType::kF16 ? -65504.0 : type == DType::kBF16 ? -0x1.fep127 : -double{std::numeric_limits<float>::max()};
    ForEveryKernel(d, [&](const AttentionDesc& typed, const Options& options) {
      Problem p(typed, 1);
      for (int64_t i = 0; i < p.mask.size(); ++i) p.mask.Set(i, lowest);
      for (int64_t i = 0; i < p.q.size(); ++i) p.q.Set(i, 0);
      RunPlan(&p, options);
      ExpectMatchesOracle(p, "lowest finite mask");
      EXPECT_TRUE(std::isfinite(p.Out(0, 0, 0, 0)));
    });
  }
}

TEST(Semantics, ZeroSizes) {
  for (int zero = 0; zero < 6; ++zero) {
    AttentionDesc d = Desc(3, 5, 4);
    int64_t* sizes[] = {&d.batch, &d.q_heads, &d.q_len, &d.kv_len, &d.qk_dim, &d.v_dim};
    *sizes[zero] = 0;
    d.scale = 1;
    ExpectOracle(d, [](Problem*) {}, "a zero size");
  }
}

TEST(Semantics, NoKeysGiveZeros) {
  ForEveryKernel(Desc(3, 0, 4), [&](const AttentionDesc& typed, const Options& options) {
    Problem p(typed, 1);
    RunPlan(&p, options);
    for (int64_t i = 0; i < p.out.size(); ++i) EXPECT_EQ(p.out.Get(i), 0);
    for (float lse : p.lse) EXPECT_EQ(lse, -kInf);
  });
}

TEST(Semantics, NegativeCausalOffset) {
  AttentionDesc d = Desc(50, 60, 16);
  d.causal = true;
  d.offset = -20;
  ExpectOracle(d, [](Problem*) {}, "offset -20");
}

TEST(Semantics, MoreQueriesThanKeys) {
  AttentionDesc d = Desc(80, 30, 16);
  d.causal = true;
  d.offset = 30 - 80;
  ExpectOracle(d, [](Problem*) {}, "bottom-right with q_len > kv_len");
}

TEST(Semantics, HeadDimensionsOfAnySize) {
  for (const auto& [qk, v] : {std::pair{1, 1}, {13, 13}, {37, 37}, {80, 80}, {192, 128}, {576, 512}, {1, 300}, {300, 1}}) {
    AttentionDesc d = Desc(17, 70, 1);
    d.qk_dim = qk;
    d.v_dim = v;
    ExpectOracle(d, [](Problem*) {}, "head dimensions");
  }
}

TEST(Semantics, BroadcastKeysAndValues) {
  AttentionDesc d = Desc(9, 70, 16);
  d.batch = 3;
  d.k = {0, 0, 16, 1};
  d.v = {0, 0, 0, 1};
  ExpectOracle(d, [](Problem*) {}, "stride 0");
}

TEST(Semantics, InnermostStrideTwo) {
  for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    AttentionDesc d = Desc(9, 70, 16);
    d.dtype = type;
    d.q = {4 * 9 * 32, 9 * 32, 32, 2};
    d.k = d.v = {2 * 70 * 32, 70 * 32, 32, 2};
    d.out = {4 * 9 * 48, 9 * 48, 48, 3};
    ExpectOracle(d, [](Problem*) {}, "innermost stride 2");
  }
}

TEST(Semantics, LayoutBSHDAndSixteenBitTypes) {
  for (DType type : {DType::kBF16, DType::kF16}) {
    for (bool wide_out : {false, true}) {
      AttentionDesc d = Desc(33, 70, 24);
      d.dtype = type;
      if (wide_out) d.out_dtype = DType::kF32;
      d.batch = 2;
      d.q = d.out = {33 * 4 * 24, 24, 4 * 24, 1};
      d.k = d.v = {70 * 2 * 24, 24, 2 * 24, 1};
      ExpectOracle(d, [](Problem*) {}, "BSHD");
    }
  }
}

TEST(Semantics, EveryModifierTogether) {
  AttentionDesc d = Desc(50, 90, 20);
  d.batch = 2;
  d.softcap = 3;
  d.alibi = d.sinks = true;
  d.causal = true;
  d.offset = 40;
  d.window_left = 60;
  d.mask = {DType::kF32, 0, 0, 90, 1, 80};
  ExpectOracle(d, [](Problem*) {}, "all modifiers");
}

#if defined(__linux__)
TEST(Semantics, StrideBeyondTwoToThe31) {
  // Two keys three gigaelements apart, in memory that only exists where it is touched.
  AttentionDesc d;
  d.q_len = 1;
  d.kv_len = 2;
  d.qk_dim = d.v_dim = 4;
  const int64_t stride = int64_t{3} << 30;
  d.k = d.v = {kContiguous, kContiguous, stride, 1};
  const size_t bytes = static_cast<size_t>(stride + 4) * 4;
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) GTEST_FAIL() << "cannot reserve " << bytes << " bytes of address space";
  auto* kv = static_cast<float*>(map);
  for (int c = 0; c < 4; ++c) {
    kv[c] = static_cast<float>(c);
    kv[stride + c] = static_cast<float>(10 * c);
  }
  const float q[4] = {1, 0, 0, 0};  // both scores are 0: the mean
  for (const std::string& kernel : UsableKernels(d)) {
    float out[4] = {};
    Options options;
    options.kernel = kernel;
    const Status status = Attend(d, {.q = q, .k = kv, .v = kv, .out = out}, options);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int c = 0; c < 4; ++c) EXPECT_NEAR(out[c], 5.5 * c, 1e-5) << kernel;
  }
  munmap(map, bytes);
}
#endif

}  // namespace
}  // namespace attenio
