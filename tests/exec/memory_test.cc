// What a call may take beside its operands: tiles, and packed keys and values of the heads in flight; never scores of all pairs.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "attenio/attention.h"

namespace attenio {
namespace {

int64_t WorkspaceBytes(int64_t q_len, int64_t kv_len, int64_t heads, DType type, int workers) {
  AttentionDesc d;
  d.q_heads = d.kv_heads = heads;
  d.q_len = q_len;
  d.kv_len = kv_len;
  d.qk_dim = d.v_dim = 128;
  d.dtype = type;
  Options options;
  options.workers = workers;
  const Result<Plan> plan = Plan::Create(d, options);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? static_cast<int64_t>(plan->workspace_bytes()) : 0;
}

TEST(Memory, AMillionKeysFitWithTheirOperandsIntoOneAndAHalfGiB) {
  constexpr int64_t kQueries = 4096, kKeys = 1 << 20, kDim = 128, kGiB = 1 << 30;
  constexpr int64_t kOperands = 2 * kDim * (2 * kKeys + 2 * kQueries);  // bf16
  for (const int workers : {1, 2, 64}) {
    const int64_t workspace = WorkspaceBytes(kQueries, kKeys, 1, DType::kBF16, workers);
    EXPECT_LE(kOperands + workspace, kGiB + kGiB / 2) << workers << " workers";
    EXPECT_LE(workspace, kKeys * kDim * 4 * 2 + workers * (int64_t{8} << 20))
        << workers << " workers";  // f32 copies at worst
  }
}

TEST(Memory, GrowsWithTheLengthsNotWithTheirProduct) {
  const auto bytes = [](int64_t n) { return WorkspaceBytes(n, n, 1, DType::kF32, 2); };
  EXPECT_LE(bytes(1 << 16), 4 * bytes(1 << 14) + (1 << 20));
  EXPECT_LE(bytes(1 << 18), 4 * bytes(1 << 16) + (1 << 20));
}

}  // namespace
}  // namespace attenio
