// What a plan promises: errors that name the argument, bit-identical results, no allocation in Run, a workspace of known size.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <thread>

#include "support/problem.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// Counts every allocation of this test program. Not inlined: GCC would take free() in delete for a mismatch with new.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace attenio {
namespace {

using testing::Problem;
using testing::RunPlan;
using testing::UsableKernels;

AttentionDesc Desc(DType type = DType::kF32) {
  AttentionDesc d;
  d.dtype = type;
  d.out_dtype = DType::kF32;
  d.batch = 2;
  d.q_heads = 6;
  d.kv_heads = 2;
  d.q_len = 75;
  d.kv_len = 131;
  d.qk_dim = 24;
  d.v_dim = 20;
  d.causal = true;
  d.offset = 56;
  d.lse = true;
  return d;
}

constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

bool SameBits(const Problem& a, const Problem& b) {
  return std::memcmp(a.out.data(), b.out.data(), static_cast<size_t>(a.out.size() * ElementBytes(a.out.type()))) == 0 &&
         std::memcmp(a.lse.data(), b.lse.data(), a.lse.size() * sizeof(float)) == 0;
}

TEST(Plan, ErrorsNameTheArgument) {
  const std::pair<std::function<void(AttentionDesc*)>, const char*> cases[] = {
      {[](auto* d) { d->q_len = -1; }, "q_len"},
      {[](auto* d) { d->kv_heads = 0; }, "kv_heads is 0"},
      {[](auto* d) { d->kv_heads = 4; }, "q_heads 6 is not a multiple of kv_heads 4"},
      {[](auto* d) { d->qk_dim = 0; }, "scale"},
      {[](auto* d) { d->scale = std::nan(""); }, "scale"},
      {[](auto* d) { d->scale = -1e39; }, "scale is -1e+39"},
      {[](auto* d) { d->softcap = -1; }, "softcap"},
      {[](auto* d) { d->softcap = 1e39; }, "softcap"},
      {[](auto* d) { d->batch = d->kv_heads = int64_t{1} << 40, d->q_heads = 0; }, "heads overflow"},
      {[](auto* d) { d->window_left = -2; }, "window_left"},
      {[](auto* d) { d->window_right = -7; }, "window_right"},
      {[](auto* d) { d->q.row = -3; }, "q stride of row is -3"},
      {[](auto* d) { d->k.element = -1; }, "k stride of element"},
      {[](auto* d) { d->out.row = 0; }, "out must not overlap itself"},
      {[](auto* d) { d->out.head = 5; }, "out must not overlap itself"},
      {[](auto* d) { d->lse_strides.row = 0; }, "lse must not overlap itself"},
      {[](auto* d) { d->dtype = DType::kBool; }, "dtype"},
      {[](auto* d) { d->out_dtype = DType::kBF16; }, "out_dtype is bf16"},
      {[](auto* d) {
         d->mask.dtype = DType::kF32;
         d->mask.kv_len = 132;
       },
       "mask kv_len"},
      {[](auto* d) {
         d->mask.dtype = DType::kF32;
         d->mask.query = -1;
       },
       "mask stride of query"},
      {[](auto* d) { d->q_len = int64_t{1} << 60; }, "overflow"},
      {[](auto* d) { d->kv_len = int64_t{1} << 62; }, "kv_len"},
      {[](auto* d) { d->k.row = int64_t{1} << 60; }, "overflow"},
      {[](auto* d) { d->offset = INT64_MIN; }, "offset"},
      {[](auto* d) {
         static const int64_t bad[] = {0, 132};
         d->kv_lens = bad;
       },
       "kv_lens[1] is 132"},
      {[](auto* d) {
         static const int64_t bad[] = {0, INT64_MAX};
         d->offsets = bad;
       },
       "offsets[1]"},
  };
  for (const auto& [edit, expected] : cases) {
    AttentionDesc d = Desc();
    edit(&d);
    const Result<Plan> plan = Plan::Create(d);
    ASSERT_FALSE(plan.ok()) << expected;
    EXPECT_EQ(plan.status().code(), Code::kInvalidArgument) << expected;
    EXPECT_NE(std::string(plan.status().message()).find(expected), std::string::npos) << plan.status().message() << " should name " << expected;
  }
}

TEST(Plan, OptionsErrors) {
  Options options;
  options.kernel = "no-such-kernel";
  EXPECT_EQ(Plan::Create(Desc(), options).status().code(), Code::kUnsupported);
  options = {};
  for (const char* text : {"nonsense", "0x4", "8x", "-1x4", "8x4 8x4 8x4 8x4 8x4 8x4 8x4 8x4 8x4", "key-resident:8x4"}) {
    options.schedule = text;
    EXPECT_FALSE(Plan::Create(Desc(), options).ok()) << text;
  }
  options = {};
  options.workers = -1;
  EXPECT_EQ(Plan::Create(Desc(), options).status().code(), Code::kInvalidArgument);
}

TEST(Plan, RunErrors) {
  Problem p(Desc(), 1);
  const Result<Plan> plan = Plan::Create(p.desc);
  ASSERT_TRUE(plan.ok());
  std::vector<std::byte> workspace(plan->workspace_bytes());
  EXPECT_EQ(plan->Run(p.operands(), {workspace.data(), workspace.size() - 1}).code(), Code::kWorkspaceTooSmall);
  for (const char* name : {"q", "k", "v", "out", "lse"}) {
    Operands o = p.operands();
    if (name == std::string("q")) o.q = nullptr;
    if (name == std::string("k")) o.k = nullptr;
    if (name == std::string("v")) o.v = nullptr;
    if (name == std::string("out")) o.out = nullptr;
    if (name == std::string("lse")) o.lse = nullptr;
    const Status status = plan->Run(o, workspace);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()).find(name), 0u) << status.message();
  }
  Parallel many = SerialParallel();
  for (const int workers : {plan->workers() + 1, 0, -1}) {
    many.workers = workers;
    EXPECT_EQ(plan->Run(p.operands(), workspace, many).code(), Code::kInvalidArgument) << workers;
  }
  EXPECT_EQ(plan->RunTask(p.operands(), workspace, plan->phases(), 0, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(plan->RunTask(p.operands(), workspace, 0, plan->tasks(0), 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(plan->RunTask(p.operands(), workspace, 0, 0, plan->workers()).code(), Code::kInvalidArgument);
}

TEST(Plan, BitIdenticalForAnyWorkersExecutorTileAndNeighbours) {
  for (DType type : kTypes) {
    for (const std::string& kernel : UsableKernels(Desc(type))) {
      SCOPED_TRACE(kernel + " " + Name(type));
      Options options;
      options.kernel = kernel;
      Problem want(Desc(type), 3);
      RunPlan(&want, options);
      for (int workers : {2, 3, 7}) {
        Problem omp(Desc(type), 3), pool(Desc(type), 3);
        RunPlan(&omp, options, OpenMPParallel(workers));
        ThreadPool threads(workers);
        RunPlan(&pool, options, threads.parallel());
        EXPECT_TRUE(SameBits(want, omp)) << workers << " OpenMP workers";
        EXPECT_TRUE(SameBits(want, pool)) << workers << " pool workers";
      }
      // Only the query tile may change: rows give the same bits in a tile of any height.
      Problem reference(Desc(type), 3);
      options.schedule = "1000x32";
      RunPlan(&reference, options);
      for (const char* schedule : {"1x32", "7x32", "50x32"}) {
        Problem tiled(Desc(type), 3);
        options.schedule = schedule;
        RunPlan(&tiled, options);
        EXPECT_TRUE(SameBits(reference, tiled)) << schedule;
      }
    }
  }
}

TEST(Plan, BatchInvariance) {
  for (DType type : kTypes) {
    for (const std::string& kernel : UsableKernels(Desc(type))) {
      SCOPED_TRACE(kernel + " " + Name(type));
      Options options;
      options.kernel = kernel;
      Problem all(Desc(type), 5);
      RunPlan(&all, options);
      AttentionDesc one_desc = Desc(type);  // batch entry 1, its last 9 queries, alone
      one_desc.batch = 1;
      one_desc.q_len = 9;
      one_desc.offset += 66;
      one_desc.q = all.desc.q;
      one_desc.k = all.desc.k;
      one_desc.v = all.desc.v;
      std::vector<float> out(static_cast<size_t>(6 * 9 * 20)), lse(6 * 9);
      Operands o = all.operands();
      const auto at = [&](const void* base, int64_t i) { return static_cast<const std::byte*>(base) + i * ElementBytes(type); };
      o.q = at(o.q, all.QIndex(1, 0, 66, 0));
      o.k = at(o.k, all.KIndex(1, 0, 0, 0));
      o.v = at(o.v, all.VIndex(1, 0, 0, 0));
      o.out = out.data();
      o.lse = lse.data();
      const Status status = Attend(one_desc, o, options);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int64_t h = 0; h < 6; ++h) {
        for (int64_t i = 0; i < 9; ++i) {
          for (int64_t c = 0; c < 20; ++c) {
            ASSERT_EQ(out[static_cast<size_t>((h * 9 + i) * 20 + c)], static_cast<float>(all.Out(1, h, 66 + i, c))) << h << " " << i << " " << c;
          }
        }
      }
    }
  }
}

TEST(Plan, TasksEqualRun) {
  Problem whole(Desc(), 4), tasks(Desc(), 4);
  RunPlan(&whole);
  const Result<Plan> plan = Plan::Create(tasks.desc);
  ASSERT_TRUE(plan.ok());
  std::vector<std::byte> workspace(plan->workspace_bytes());
  for (int64_t phase = 0; phase < plan->phases(); ++phase) {
    for (int64_t task = plan->tasks(phase) - 1; task >= 0; --task) {
      ASSERT_TRUE(plan->RunTask(tasks.operands(), workspace, phase, task, 0).ok());
    }
  }
  EXPECT_TRUE(SameBits(whole, tasks));
}

TEST(Plan, RunAllocatesNothing) {
  for (DType type : kTypes) {
    for (const std::string& kernel : UsableKernels(Desc(type))) {
      Problem p(Desc(type), 1);
      Options options;
      options.kernel = kernel;
      const Result<Plan> plan = Plan::Create(p.desc, options);
      ASSERT_TRUE(plan.ok());
      std::vector<std::byte> workspace(plan->workspace_bytes());
      const Operands o = p.operands();
      const int64_t before = allocations;
      const Status status = plan->Run(o, workspace);
      EXPECT_EQ(allocations - before, 0) << kernel;
      EXPECT_TRUE(status.ok());
    }
  }
}

TEST(Plan, TwoThreadsRunOnePlan) {
  Problem want(Desc(), 6), a(Desc(), 6), b(Desc(), 6);
  RunPlan(&want);
  const Result<Plan> plan = Plan::Create(want.desc);
  ASSERT_TRUE(plan.ok());
  const auto run = [&](Problem* p) {
    std::vector<std::byte> workspace(plan->workspace_bytes());
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(plan->Run(p->operands(), workspace).ok());
  };
  std::thread other([&] { run(&a); });
  run(&b);
  other.join();
  EXPECT_TRUE(SameBits(want, a));
  EXPECT_TRUE(SameBits(want, b));
}

TEST(Plan, StaysWithinItsWorkspaceAndOutput) {
  for (DType type : kTypes) {
    for (const std::string& kernel : UsableKernels(Desc(type))) {
      for (const char* schedule : {"", "8x4", "30x64", "1x1"}) {
        Problem p(Desc(type), 2);
        Options options;
        options.kernel = kernel;
        options.schedule = schedule;
        const Result<Plan> plan = Plan::Create(p.desc, options);
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        constexpr size_t kGuard = 4096;
        std::vector<std::byte> workspace(plan->workspace_bytes() + 2 * kGuard + 1, std::byte{0x5a});
        ASSERT_TRUE(plan->Run(p.operands(), {workspace.data() + kGuard + 1, plan->workspace_bytes()}).ok());
        for (size_t i = 0; i < kGuard; ++i) {
          ASSERT_EQ(workspace[i], std::byte{0x5a});
          ASSERT_EQ(workspace[workspace.size() - 1 - i], std::byte{0x5a});
        }
      }
    }
  }
}

TEST(Plan, ExplainSaysWhatRuns) {
  const Result<Plan> plan = Plan::Create(Desc());
  ASSERT_TRUE(plan.ok());
  const std::string text = plan->Explain();
  for (const char* part : {"shape", "machine", "kernel", "schedule", "traffic", plan->kernel()}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

TEST(Merge, SplitKeysMergeToTheWhole) {
  AttentionDesc d = Desc();
  d.causal = false;
  d.batch = 1;
  d.sinks = true;
  Problem whole(d, 8);
  RunPlan(&whole);
  std::vector<Problem> parts;
  for (int part = 0; part < 3; ++part) {
    AttentionDesc half = d;
    half.sinks = part == 0;  // in exactly one part
    parts.emplace_back(half, 8);
    Problem& p = parts.back();
    p.desc.mask = {DType::kBool, 0, 0, 0, 1, -1};
    p.mask = testing::Buffer(DType::kBool, d.kv_len);
    for (int64_t j = 0; j < d.kv_len; ++j) p.mask.Set(j, part < 2 ? (j < 50) == (part == 0) : 0);  // the third has no key at all
    if (half.sinks) p.sinks = whole.sinks;
    RunPlan(&p);
  }
  std::vector<const float*> outs, lses;
  for (Problem& p : parts) {
    outs.push_back(static_cast<const float*>(p.out.data()));
    lses.push_back(p.lse.data());
  }
  const int64_t rows = d.q_heads * d.q_len;
  std::vector<float> out(static_cast<size_t>(rows * d.v_dim)), lse(static_cast<size_t>(rows));
  ASSERT_TRUE(MergeByLse(outs, lses, rows, d.v_dim, out.data(), lse.data()).ok());
  for (int64_t i = 0; i < rows * d.v_dim; ++i) EXPECT_NEAR(out[static_cast<size_t>(i)], whole.out.Get(i), 2e-6) << i;
  for (int64_t r = 0; r < rows; ++r) EXPECT_NEAR(lse[static_cast<size_t>(r)], whole.lse[static_cast<size_t>(r)], 2e-6) << r;
  EXPECT_EQ(MergeByLse({}, {}, 1, 1, out.data(), lse.data()).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace attenio
