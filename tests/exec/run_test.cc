// Executor and schedule agree: every allowed (query, key) pair is computed exactly once, whatever the tiles, quanta, bands,
// batches and workers. Shown with a kernel that only records what it is handed.
#include "exec/run.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/problem.h"
#include "support/recording_kernel.h"

namespace attenio {
namespace {

using testing::Random;
using testing::Recording;

AttentionDesc RandomDesc(Random* random) {
  AttentionDesc d;
  d.batch = random->Integer(1, 3);
  d.kv_heads = random->Integer(1, 3);
  d.q_heads = d.kv_heads * random->Integer(1, 3);
  d.q_len = random->Integer(0, 40);
  d.kv_len = random->Integer(0, 60);
  d.qk_dim = d.v_dim = 1;
  d.causal = random->Integer(0, 1) == 1;
  if (random->Integer(0, 2) == 0) d.window_left = random->Integer(0, 20);
  if (random->Integer(0, 2) == 0) d.window_right = random->Integer(0, 20);
  d.offset = random->Integer(0, 2) == 0 ? 0 : random->Integer(-30, 60);
  d.scale = 1;
  d.out_dtype = DType::kF32;
  const int64_t q = d.q_len, m = d.kv_len;
  d.q = d.out = {d.q_heads * q, q, 1, 1};
  d.k = d.v = {d.kv_heads * m, m, 1, 1};
  d.lse_strides = d.q;
  return d;
}

bool Allowed(const AttentionDesc& d, int64_t position, int64_t key) {
  if (d.causal && key > position) return false;
  if (d.window_left != kUnbounded && key < position - d.window_left) return false;
  return d.window_right == kUnbounded || key <= position + d.window_right;
}

struct Ids {
  std::vector<float> q, k, out;
};

Ids MakeIds(const AttentionDesc& d) {
  Ids ids;
  for (int64_t i = 0; i < d.batch * d.q_heads * d.q_len; ++i) ids.q.push_back(static_cast<float>(i));
  for (int64_t i = 0; i < d.batch * d.kv_heads * d.kv_len; ++i) ids.k.push_back(static_cast<float>(i));
  ids.out.resize(ids.q.size());
  return ids;
}

void ExpectEachPairOnce(const Problem& p, const std::string& what) {
  const AttentionDesc& d = p.desc;
  for (int64_t row = 0; row < d.batch * d.q_heads * d.q_len; ++row) {
    const int64_t b = row / (d.q_heads * d.q_len), h = row / d.q_len % d.q_heads, i = row % d.q_len;
    const int64_t own_head = b * d.kv_heads + h / p.shape.group();
    const int64_t offset = p.offsets.empty() ? d.offset : p.offsets[static_cast<size_t>(b)];
    const int64_t kv_len = p.kv_lens.empty() ? d.kv_len : p.kv_lens[static_cast<size_t>(b)];
    for (int64_t key = 0; key < d.batch * d.kv_heads * d.kv_len; ++key) {
      const int64_t j = key % d.kv_len;
      const bool want = key / d.kv_len == own_head && j < kv_len && Allowed(d, i + offset, j);
      ASSERT_EQ(Recording::Get().Visits(row, key), want ? 1 : 0) << what << " batch " << b << " head " << h << " query " << i << " key id " << key;
    }
  }
}

Problem RandomProblem(Random* random, const KernelSet* kernel) {
  Problem p;
  p.desc = RandomDesc(random);
  const AttentionDesc& d = p.desc;
  p.shape = {.batch = d.batch, .q_heads = d.q_heads, .kv_heads = d.kv_heads, .q_len = d.q_len, .kv_len = d.kv_len, .qk_dim = 1, .v_dim = 1,
             .offset = d.offset, .left = d.window_left, .right = d.causal ? 0 : d.window_right};
  if (random->Integer(0, 1) == 1) {
    for (int64_t b = 0; b < d.batch; ++b) {
      p.offsets.push_back(random->Integer(-20, 40));
      p.kv_lens.push_back(random->Integer(0, d.kv_len));
    }
  }
  p.kernel = kernel;
  const Quantum q = kernel->quantum;
  const int64_t keys = random->Integer(1, 4) == 1 ? random->Integer(1, 9) : q.keys * random->Integer(1, 5);
  p.schedule.levels = {{.level = "L2", .queries = random->Integer(1, 50), .keys = keys},
                       {.level = "L1", .queries = q.rows * random->Integer(1, 4), .keys = keys},
                       {.level = "reg", .dataflow = Dataflow::kScoreResident, .queries = q.rows, .keys = q.keys}};
  p.schedule.packing = random->Integer(0, 1) == 1 ? Packing::kHead : Packing::kBlock;
  p.workers = static_cast<int>(random->Integer(1, 4));
  p.overlap = {.prefetch = random->Integer(0, 1) == 1, .pack_ahead = random->Integer(0, 1) == 1};
  return p;
}

void RunRecorded(Problem* p, int64_t wave_bytes) {
  Ids ids = MakeIds(p->desc);
  ASSERT_TRUE(LayOut(p, wave_bytes).ok());
  Recording::Get().Reset(static_cast<int64_t>(ids.q.size()), static_cast<int64_t>(ids.k.size()));
  std::vector<std::byte> workspace(static_cast<size_t>(p->workspace_bytes) + 1);
  ThreadPool pool(p->workers);
  RunAll(*p, {.q = ids.q.data(), .k = ids.k.data(), .v = ids.k.data(), .out = ids.out.data()}, workspace.data() + 1, pool.parallel());
}

TEST(Run, EveryAllowedPairExactlyOnce) {
  const KernelSet kernels[] = {testing::RecordingKernel<1, 1>(), testing::RecordingKernel<3, 5>(), testing::RecordingKernel<14, 32>()};
  int64_t multi_tile = 0, multi_block = 0, multi_wave = 0, banded = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    Random random(seed);
    Problem p = RandomProblem(&random, &kernels[seed % 3]);
    RunRecorded(&p, random.Integer(0, 1) == 1 ? 1 : 1 << 20);
    ExpectEachPairOnce(p, "seed " + std::to_string(seed) + " " + p.schedule.ToString());
    if (HasFatalFailure()) return;
    multi_tile += p.tiles > 1;
    multi_block += p.blocks > 2;
    multi_wave += p.wave < p.heads;
    banded += p.shape.banded();
  }
  // The test was not vacuous.
  EXPECT_GT(multi_tile, 100);
  EXPECT_GT(multi_block, 100);
  EXPECT_GT(multi_wave, 50);
  EXPECT_GT(banded, 200);
}

TEST(Run, WorkspaceIsLaidOutForOverflow) {
  Random random(7);
  const KernelSet kernel = testing::RecordingKernel<1, 1>();
  Problem p = RandomProblem(&random, &kernel);
  p.shape.kv_len = p.desc.kv_len = int64_t{1} << 60;
  p.schedule.packing = Packing::kHead;
  p.shape.batch = 1 << 20;
  EXPECT_EQ(LayOut(&p, 1).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace attenio
