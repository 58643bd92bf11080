#include "attenio/attenio.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/problem.h"

namespace attenio {
namespace {

using testing::Problem;

AttentionDesc Desc() {
  AttentionDesc d;
  d.batch = 2;
  d.q_heads = 4;
  d.kv_heads = 2;
  d.q_len = 33;
  d.kv_len = 70;
  d.qk_dim = 24;
  d.v_dim = 16;
  d.scale = 0.3;
  d.softcap = 4;
  d.causal = d.alibi = d.sinks = d.lse = true;
  d.offset = 30;
  d.window_left = 25;
  d.mask.dtype = DType::kF16;
  return d;
}

attenio_desc ToC(const AttentionDesc& d) {
  attenio_desc c;
  attenio_desc_init(&c, sizeof(c));
  c.batch = d.batch;
  c.q_heads = d.q_heads;
  c.kv_heads = d.kv_heads;
  c.q_len = d.q_len;
  c.kv_len = d.kv_len;
  c.qk_dim = d.qk_dim;
  c.v_dim = d.v_dim;
  c.scale = *d.scale;
  c.has_scale = 1;
  c.softcap = d.softcap;
  c.causal = c.alibi = c.sinks = c.lse = 1;
  c.offset = d.offset;
  c.window_left = d.window_left;
  c.mask_dtype = ATTENIO_F16;
  c.mask_batch = d.mask.batch;
  c.mask_head = d.mask.head;
  c.mask_query = d.mask.query;
  c.mask_key = d.mask.key;
  return c;
}

attenio_operands ToC(const Operands& o) {
  attenio_operands c;
  attenio_operands_init(&c, sizeof(c));
  c.q = o.q;
  c.k = o.k;
  c.v = o.v;
  c.out = o.out;
  c.mask = o.mask;
  c.alibi = o.alibi;
  c.sinks = o.sinks;
  c.lse = o.lse;
  return c;
}

void RunInOrder(void* context, int64_t tasks, attenio_task task, void* argument) {
  ++*static_cast<int*>(context);
  for (int64_t i = 0; i < tasks; ++i) task(argument, i, static_cast<int>(i % 2));
}

TEST(CApi, EqualsTheCppApi) {
  Problem want(Desc(), 1), got(Desc(), 1), by_task(Desc(), 1), at_once(Desc(), 1);
  testing::RunPlan(&want);
  const attenio_desc desc = ToC(got.desc);
  attenio_error error;
  attenio_plan* plan = nullptr;
  ASSERT_EQ(attenio_plan_create(&desc, nullptr, &plan, &error), ATTENIO_OK) << error.message;
  std::vector<char> workspace(attenio_workspace_bytes(plan));
  int runs = 0;
  const attenio_executor executor = {sizeof(attenio_executor), RunInOrder, &runs, 2};
  attenio_operands o = ToC(got.operands());
  ASSERT_EQ(attenio_run(plan, &o, workspace.data(), workspace.size(), &executor, &error), ATTENIO_OK) << error.message;
  EXPECT_GT(runs, 0);
  const size_t bytes = static_cast<size_t>(want.out.size()) * sizeof(float);
  EXPECT_EQ(std::memcmp(want.out.data(), got.out.data(), bytes), 0);
  EXPECT_EQ(want.lse, got.lse);

  o = ToC(by_task.operands());
  for (int64_t phase = 0; phase < attenio_phases(plan); ++phase) {
    for (int64_t task = 0; task < attenio_tasks(plan, phase); ++task) {
      ASSERT_EQ(attenio_run_task(plan, &o, workspace.data(), workspace.size(), {phase, task, 0}, &error), ATTENIO_OK) << error.message;
    }
  }
  EXPECT_EQ(std::memcmp(want.out.data(), by_task.out.data(), bytes), 0);
  o = ToC(at_once.operands());
  ASSERT_EQ(attenio_attend(&desc, &o, &error), ATTENIO_OK) << error.message;
  EXPECT_EQ(std::memcmp(want.out.data(), at_once.out.data(), bytes), 0);

  std::string text(attenio_explain(plan, nullptr, 0) + 1, 'x');
  EXPECT_EQ(attenio_explain(plan, text.data(), text.size()), text.size() - 1);
  EXPECT_EQ(text.back(), 0);
  char cut[8];
  attenio_explain(plan, cut, sizeof(cut));
  EXPECT_EQ(std::strlen(cut), 7u);
  attenio_plan_destroy(plan);
}

TEST(CApi, Errors) {
  attenio_desc desc = ToC(Problem(Desc(), 1).desc);
  attenio_error error;
  attenio_plan* plan = nullptr;
  const auto expect = [&](const char* part) {
    EXPECT_NE(std::string(error.message).find(part), std::string::npos) << error.message;
    EXPECT_EQ(plan, nullptr);
  };
  EXPECT_EQ(attenio_plan_create(nullptr, nullptr, &plan, &error), ATTENIO_INVALID_ARGUMENT);
  expect("desc is null");
  EXPECT_EQ(attenio_plan_create(&desc, nullptr, nullptr, &error), ATTENIO_INVALID_ARGUMENT);
  expect("plan is null");
  desc.struct_size = 0;
  EXPECT_EQ(attenio_plan_create(&desc, nullptr, &plan, &error), ATTENIO_INVALID_ARGUMENT);
  expect("struct_size");
  desc.struct_size = sizeof(desc);
  desc.dtype = static_cast<attenio_dtype>(77);
  EXPECT_EQ(attenio_plan_create(&desc, nullptr, &plan, &error), ATTENIO_INVALID_ARGUMENT);
  expect("dtype is 77");
  desc.dtype = ATTENIO_F32;
  desc.kv_heads = 3;
  EXPECT_EQ(attenio_plan_create(&desc, nullptr, &plan, nullptr), ATTENIO_INVALID_ARGUMENT);
  attenio_operands operands;
  attenio_operands_init(&operands, sizeof(operands));
  EXPECT_EQ(attenio_run(nullptr, &operands, nullptr, 0, nullptr, &error), ATTENIO_INVALID_ARGUMENT);
  expect("plan is null");
  attenio_executor executor;
  attenio_executor_init(&executor, sizeof(executor));
  EXPECT_EQ(executor.struct_size, sizeof(executor));
  EXPECT_EQ(executor.workers, 1);
  EXPECT_EQ(executor.run, nullptr);
  attenio_plan_destroy(nullptr);
  EXPECT_EQ(attenio_workspace_bytes(nullptr), 0u);
}

TEST(CApi, AnOlderCallersShorterStructIsRead) {
  attenio_desc desc = ToC(Problem(Desc(), 1).desc);
  desc.struct_size = offsetof(attenio_desc, mask_dtype);  // a caller from before masks
  attenio_error error;
  attenio_plan* plan = nullptr;
  ASSERT_EQ(attenio_plan_create(&desc, nullptr, &plan, &error), ATTENIO_OK) << error.message;
  attenio_plan_destroy(plan);
}

}  // namespace
}  // namespace attenio
