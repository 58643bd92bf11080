// The oneDNN baseline against the f64 oracle: a baseline that computes something else would make a comparison worthless.
#include "unfused/onednn.h"

#include <gtest/gtest.h>

#include <vector>

#include "api/validate.h"
#include "support/problem.h"

namespace attenio {
namespace {

using testing::Problem;

AttentionDesc Desc(DType type) {
  AttentionDesc d;
  d.batch = 2;
  d.q_heads = 6;
  d.kv_heads = 2;
  d.q_len = 37;
  d.kv_len = 131;
  d.qk_dim = 24;
  d.v_dim = 20;
  d.dtype = type;
  return d;
}

AttentionDesc Resolved(const AttentionDesc& d) {
  const Result<AttentionDesc> resolved = Resolve(d);
  EXPECT_TRUE(resolved.ok()) << resolved.status().message();
  return *resolved;
}

// The reason why this build or machine has no baseline for `type`; empty where it must work.
std::string Missing(DType type) {
  if (unfused::OneDnnVersion().empty() || !HasOpenMP()) return "no oneDNN or no OpenMP";
  // bf16 needs instructions that a machine may lack.
  const auto plan = unfused::OneDnnPlan::Create(Resolved(Desc(type)), {});
  return type == DType::kBF16 && !plan.ok() ? plan.status().message() : "";
}

void Check(const AttentionDesc& d, const unfused::Options& options, const Parallel& parallel, const std::string& what) {
  Problem p(d, 7);
  unfused::Options o = options;
  o.workers = parallel.workers;
  const auto plan = unfused::OneDnnPlan::Create(Resolved(p.desc), o);
  ASSERT_TRUE(plan.ok()) << what << ": " << plan.status().message();
  p.probability_type = plan->probability_type();
  std::vector<std::byte> workspace(plan->workspace_bytes(), std::byte{0xff});
  const Status status = plan->Run(p.operands(), workspace, parallel);
  ASSERT_TRUE(status.ok()) << what << ": " << status.message();
  testing::ExpectMatchesOracle(p, what + ", " + plan->kernel());
}

class OneDnn : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (const std::string missing = Missing(GetParam()); !missing.empty()) GTEST_SKIP() << missing;
  }
};

INSTANTIATE_TEST_SUITE_P(Types, OneDnn, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return Name(type.param); });

TEST_P(OneDnn, MatchesTheOracle) {
  for (int workers : {1, 2}) {
    for (int64_t rows : {0, 1, 10, 32, 1000}) {
      const std::string what = "rows " + std::to_string(rows) + " workers " + std::to_string(workers);
      Check(Desc(GetParam()), {.rows = rows}, OpenMPParallel(workers), what);
    }
  }
}

TEST_P(OneDnn, CausalWithAndWithoutAnOffset) {
  for (int64_t offset : {0, 50, 94, 1000}) {
    AttentionDesc d = Desc(GetParam());
    d.causal = true;
    d.offset = offset;
    for (int64_t rows : {1, 16, 64}) {
      Check(d, {.rows = rows}, OpenMPParallel(2), "offset " + std::to_string(offset) + " rows " + std::to_string(rows));
    }
  }
}

TEST_P(OneDnn, AdditiveMasksAlsoBroadcast) {
  AttentionDesc d = Desc(GetParam());
  d.mask.dtype = DType::kF32;
  Check(d, {.rows = 16}, OpenMPParallel(2), "mask of every head");
  d.causal = true;
  Check(d, {.rows = 16}, OpenMPParallel(2), "causal and a mask");
  d.mask.query = d.kv_len;  // one matrix for all heads
  Check(d, {.rows = 16}, OpenMPParallel(2), "one mask");
}

TEST_P(OneDnn, DecodesAndTakesStridesScalesAndOutputs) {
  AttentionDesc d = Desc(GetParam());
  d.q_len = 1;
  d.scale = 0.3;
  Check(d, {}, OpenMPParallel(2), "one query");
  d = Desc(GetParam());
  d.out_dtype = DType::kF32;
  Check(d, {}, OpenMPParallel(2), "f32 out");
  const auto interleaved = [](int64_t heads, int64_t len, int64_t dim) {  // (batch, len, heads, dim)
    return Strides{.batch = len * heads * dim, .head = dim, .row = heads * dim};
  };
  d.q = interleaved(6, 37, 24);
  d.k = interleaved(2, 131, 24);
  d.v = interleaved(2, 131, 20);
  d.out = interleaved(6, 37, 20);
  Check(d, {.rows = 16}, OpenMPParallel(2), "heads inside rows");
}

TEST_P(OneDnn, RunRefusesWhatWasNotPlanned) {
  Problem p(Desc(GetParam()), 7);
  const auto plan = unfused::OneDnnPlan::Create(Resolved(p.desc), {.workers = 1});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  std::vector<std::byte> workspace(plan->workspace_bytes());
  EXPECT_EQ(plan->Run(p.operands(), {workspace.data(), workspace.size() - 1}, SerialParallel()).code(), Code::kWorkspaceTooSmall);
  EXPECT_EQ(plan->Run(p.operands(), workspace, OpenMPParallel(3)).code(), Code::kInvalidArgument);
}

TEST(OneDnnCreate, NamesWhatItDoesNotExpress) {
  const auto refused = [](auto change) {
    AttentionDesc d = Desc(DType::kF32);
    change(&d);
    const auto plan = unfused::OneDnnPlan::Create(Resolved(d), {});
    EXPECT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), Code::kUnsupported);
    return std::string(plan.status().message());
  };
  if (const std::string missing = Missing(DType::kF32); !missing.empty()) {
    EXPECT_NE(refused([](AttentionDesc*) {}), "");
    return;
  }
  const auto expect = [&](auto change, const char* word) {
    const std::string reason = refused(change);
    EXPECT_NE(reason.find(word), std::string::npos) << reason;
  };
  expect([](AttentionDesc* d) { d->dtype = DType::kF16; }, "f32 and bf16");
  expect([](AttentionDesc* d) { d->softcap = 5; }, "softcap");
  expect([](AttentionDesc* d) { d->window_left = 5; }, "windows");
  expect([](AttentionDesc* d) { d->sinks = true; }, "sinks");
  expect([](AttentionDesc* d) { d->causal = true, d->offset = -1; }, "without a key");
  expect([](AttentionDesc* d) { d->mask.dtype = DType::kBool; }, "f32 masks");
  expect([](AttentionDesc* d) { d->kv_len = 0; }, "empty");
}

}  // namespace
}  // namespace attenio
