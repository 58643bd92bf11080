// What a caller may get wrong on purpose or by accident: extremes of every size must end in a result or in an error, at once.
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "attenio/approx.h"
#include "support/problem.h"

namespace attenio {
namespace {

using testing::ExpectMatchesOracle;
using testing::Problem;
using testing::RunPlan;

AttentionDesc Desc() {
  AttentionDesc d;
  d.q_heads = 3;
  d.q_len = 70;
  d.kv_len = 170;
  d.qk_dim = 24;
  d.v_dim = 20;
  return d;
}

// Tiles up to 2^63 - 1 are those of the whole problem.
TEST(Hostile, HugeTilesComputeTheSame) {
  for (const char* text :
       {"9223372036854775807x28", "9223372036854775807x9223372036854775807", "64x9223372036854775807",
        "28x64 9223372036854775807x64", "9223372036854775800x96 14x96 pack:head"}) {
    Options options;
    options.schedule = text;
    int ran = 0;
    for (const std::string& kernel : testing::UsableKernels(Desc())) {
      options.kernel = kernel;
      Problem p(Desc(), 3);
      if (!Plan::Create(p.desc, options).ok()) continue;  // a strip that is no multiple of this kernel's rows
      RunPlan(&p, options);
      ExpectMatchesOracle(p, kernel + " " + text);
      ++ran;
    }
    EXPECT_GT(ran, 0) << text;
  }
}

// However many heads: where nothing is written, nothing is visited.
TEST(Hostile, EmptyOutputsReturnAtOnce) {
  for (const char* schedule : {"", "8x64 pack:head", "8x64 pack:block"}) {
    for (const auto& [q_heads, q_len, v_dim] : {std::array<int64_t, 3>{0, 4, 4}, {2, 0, 4}, {2, 4, 0}}) {
      AttentionDesc d = Desc();
      d.batch = int64_t{1} << 38;
      d.q_heads = q_heads;
      d.q_len = q_len;
      d.v_dim = v_dim;
      d.kv_len = 0;
      Options options;
      options.schedule = schedule;
      options.workers = 1;
      const Result<Plan> plan = Plan::Create(d, options);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      EXPECT_EQ(plan->phases(), 0);
      std::vector<std::byte> workspace(plan->workspace_bytes());
      EXPECT_TRUE(plan->Run({}, workspace).ok());
    }
  }
}

// Strides of tensors without elements are never multiplied, and their pointers may be null.
TEST(Hostile, EmptyTensorsMayHaveAnyStridesAndNoMemory) {
  constexpr Strides kHuge = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
  AttentionDesc d = Desc();
  d.batch = 3;
  d.lse = true;
  d.kv_len = 0;
  d.k = d.v = kHuge;
  d.mask = {DType::kF32, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, -1};
  Problem p(Desc(), 1);
  std::vector<float> out(static_cast<size_t>(3 * 3 * 70 * 20), 7), lse(static_cast<size_t>(3 * 3 * 70), 7);
  ASSERT_TRUE(Attend(d, {.out = out.data(), .lse = lse.data()}).ok());
  for (float x : out) ASSERT_EQ(x, 0);
  for (float x : lse) ASSERT_EQ(x, -std::numeric_limits<float>::infinity());
  d = Desc();
  d.qk_dim = 0;
  d.scale = 1;
  d.q = d.k = kHuge;
  EXPECT_TRUE(Attend(d, {.v = p.v.data(), .out = out.data()}).ok());
  d = Desc();
  d.v_dim = 0;
  d.lse = true;
  d.out = d.v = kHuge;
  EXPECT_TRUE(Attend(d, {.q = p.q.data(), .k = p.k.data(), .lse = lse.data()}).ok());
}

TEST(Hostile, StridesOfAnUnusedLseAreNotChecked) {
  AttentionDesc d = Desc();
  d.lse_strides = {-1, 0, 0, -5};
  EXPECT_TRUE(Plan::Create(d).ok());
  d.lse = true;
  EXPECT_FALSE(Plan::Create(d).ok());
  d.lse_strides = {.element = -5};
  EXPECT_TRUE(Plan::Create(d).ok()) << "element is not used";
}

// Only the keys that are attended are touched, at positions beyond 2^31 and 2^39.
TEST(Hostile, BroadcastKeysWithoutEnd) {
  AttentionDesc d = Desc();
  d.q_len = 1;
  d.kv_len = int64_t{1} << 40;
  d.k = d.v = {0, 0, 0, 1};
  d.window_left = 10;
  for (const int64_t offset : {int64_t{3}, (int64_t{1} << 31) + 1, d.kv_len - 1}) {
    d.causal = true;
    d.offset = offset;
    Problem p(Desc(), 2);
    std::vector<float> out(60);
    ASSERT_TRUE(Attend(d, {.q = p.q.data(), .k = p.k.data(), .v = p.v.data(), .out = out.data()}).ok());
    for (size_t c = 0; c < out.size(); ++c) EXPECT_NEAR(out[c], p.v.Get(static_cast<int64_t>(c % 20)), 1e-5) << c;
  }
}

TEST(Hostile, MachinesOfAnyCoreCount) {
  for (const int64_t cores : {int64_t{0}, int64_t{-1}, INT64_MIN, int64_t{1} << 31, int64_t{1} << 32, INT64_MAX}) {
    Machine machine = ThisMachine();
    machine.cores = cores;
    Options options;
    options.machine = &machine;
    const Result<Plan> plan = Plan::Create(Desc(), options);
    if (plan.ok()) {
      EXPECT_GE(plan->workers(), 1) << cores;
    }
  }
}

TEST(Hostile, NothingThrows) {
  AttentionDesc d = Desc();
  d.kv_heads = d.q_heads = 1;
  for (int64_t* extent : {&d.batch, &d.q_len, &d.kv_len, &d.qk_dim, &d.v_dim}) {
    const int64_t before = *extent;
    for (const int64_t huge : {int64_t{1} << 40, int64_t{1} << 60, INT64_MAX}) {
      *extent = huge;
      for (ApproxMethod method : {ApproxMethod::kState, ApproxMethod::kGroups}) {
        ApproxOptions options;
        options.method = method;
        EXPECT_NO_THROW((void)ApproxPlan::Create(d, options));
      }
      EXPECT_NO_THROW((void)Plan::Create(d));
    }
    *extent = before;
  }
  RunningOptions running;
  running.qk_dim = int64_t{1} << 62;
  running.v_dim = int64_t{1} << 62;
  running.key_radius = running.query_norm = 1e-3;
  EXPECT_NO_THROW((void)RunningState::Create(running));
}

TEST(Hostile, AMachineOfEndlessCachesIsRefused) {
  Machine machine = ThisMachine();
  for (MemoryLevel& l : machine.levels) l.ways = l.bytes > 0 ? int64_t{1} << 60 : 0;
  EXPECT_EQ(SimulateCaches(*Schedule::Parse("8x64"), Shape{}, machine, {}).status().code(), Code::kInvalidArgument);
  CacheOptions options;
  options.packed_bytes = INT64_MAX;
  EXPECT_EQ(SimulateCaches(*Schedule::Parse("8x64"), Shape{}, ThisMachine(), options).status().code(),
            Code::kInvalidArgument);
}

// A sink of infinity takes all the weight.
TEST(Hostile, InfiniteSink) {
  AttentionDesc d = Desc();
  d.sinks = d.lse = true;
  for (const std::string& kernel : testing::UsableKernels(d)) {
    Problem p(d, 5);
    p.sinks = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), 0};
    Options options;
    options.kernel = kernel;
    RunPlan(&p, options);
    ExpectMatchesOracle(p, kernel);
    EXPECT_EQ(p.Out(0, 0, 0, 0), 0);
    EXPECT_EQ(p.lse[0], std::numeric_limits<float>::infinity());
  }
}

// The keys weigh next to nothing beside the sink, and their biases still cost digits.
TEST(Hostile, SinkFarAboveTheKeys) {
  AttentionDesc d = Desc();
  d.sinks = d.alibi = d.lse = true;
  for (const std::string& kernel : testing::UsableKernels(d)) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Problem p(d, seed);
      for (float& x : p.sinks) x = 40 + 3 * x;
      for (float& x : p.alibi) x = 0.3f;
      Options options;
      options.kernel = kernel;
      RunPlan(&p, options);
      ExpectMatchesOracle(p, kernel + " seed " + std::to_string(seed));
    }
  }
}

// At positions of 2^60 the biases of all keys are equal in f32, and almost so in f64.
TEST(Hostile, AlibiFarFromTheKeys) {
  for (const int64_t offset : {int64_t{1} << 30, int64_t{1} << 60, -(int64_t{1} << 60)}) {
    AttentionDesc d = Desc();
    d.alibi = true;
    d.offset = offset;
    for (const std::string& kernel : testing::UsableKernels(d)) {
      Problem p(d, 4);
      Options options;
      options.kernel = kernel;
      RunPlan(&p, options);
      ExpectMatchesOracle(p, kernel);
    }
  }
}

TEST(Hostile, TinyValues) {
  for (DType type : {DType::kF32, DType::kBF16}) {
    AttentionDesc d = Desc();
    d.dtype = type;
    d.out_dtype = DType::kF32;
    for (const std::string& kernel : testing::UsableKernels(d)) {
      Problem p(d, 6);
      for (int64_t i = 0; i < p.v.size(); ++i) p.v.Set(i, p.v.Get(i) * 1e-39);
      Options options;
      options.kernel = kernel;
      RunPlan(&p, options);
      ExpectMatchesOracle(p, kernel);
    }
  }
}

TEST(Hostile, MergeRefusesMissingParts) {
  const std::vector<float> part(8);
  std::vector<float> out(8);
  const std::vector<const float*> good = {part.data(), part.data()}, bad = {part.data(), nullptr};
  EXPECT_TRUE(MergeByLse(good, good, 2, 4, out.data(), nullptr).ok());
  EXPECT_EQ(MergeByLse(bad, good, 2, 4, out.data(), nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(MergeByLse(good, bad, 2, 4, out.data(), nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(MergeByLse(good, good, 2, 4, nullptr, nullptr).code(), Code::kInvalidArgument);
  EXPECT_TRUE(MergeByLse(bad, bad, 0, 4, nullptr, nullptr).ok());
}

}  // namespace
}  // namespace attenio
