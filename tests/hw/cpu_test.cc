#include <gtest/gtest.h>

#include "attenio/hw.h"

namespace attenio {
namespace {

// Round numbers: 100 GFLOP/s, 1 G exp/s, 1000 / 100 / 50 / 10 GB/s.
Machine TestMachine() {
  Machine m;
  m.name = "test";
  m.cores = 4;
  m.fma_flops = 100e9;
  m.exp_per_second = 1e9;
  const auto level = [](const char* name, int64_t bytes, int64_t sharers, double alone, double shared) {
    MemoryLevel l;
    l.name = name;
    l.bytes = bytes;
    l.ways = 8;
    l.sharers = sharers;
    l.bytes_per_second = alone;
    l.shared_bytes_per_second = shared;
    return l;
  };
  m.levels = {level("reg", 2048, 1, 0, 0), level("L1", 32 << 10, 1, 1000e9, 1000e9),
              level("L2", 1 << 20, 1, 100e9, 100e9), level("LLC", 32 << 20, 4, 50e9, 100e9),
              level("memory", 0, 4, 10e9, 20e9)};
  return m;
}

Shape Prefill(int64_t n, int64_t d, int64_t heads) {
  Shape s;
  s.q_heads = s.kv_heads = heads;
  s.q_len = s.kv_len = n;
  s.qk_dim = s.v_dim = d;
  return s;
}

CpuOptions Options(int64_t threads) {
  CpuOptions o;
  o.quantum = {14, 32, 16};
  o.threads = threads;
  return o;
}

const Schedule kSchedule = *Schedule::Parse("L2:query-resident:512x128 L1:query-resident:64x128 pack:head");

TEST(ProjectTime, ProductsAndExponentialsAddUp) {
  const CpuProjection p = *ProjectTime(Prefill(4096, 64, 4), TestMachine(), kSchedule, Options(1));
  const double pairs = 4.0 * 4096 * 4096;
  EXPECT_DOUBLE_EQ(p.product_seconds, pairs * 2 * 128 / 100e9);
  EXPECT_DOUBLE_EQ(p.exp_seconds, pairs / 1e9);
  EXPECT_EQ(p.bound, "products");
  // 4 MiB of f32 tensors a head and 2 packed: read from the LLC, written to it, a head after the other
  EXPECT_DOUBLE_EQ(p.packing_seconds, 4 * (4096.0 * 128 * 4 / 50e9) * 2);
  EXPECT_DOUBLE_EQ(p.seconds, p.product_seconds + p.exp_seconds + p.packing_seconds);
}

TEST(ProjectTime, StripsReadBlocksFromTheTilesLevel) {
  const CpuProjection p = *ProjectTime(Prefill(4096, 64, 1), TestMachine(), kSchedule, Options(1));
  ASSERT_EQ(p.levels.size(), 3u);
  EXPECT_EQ(p.levels[1].level, "L2");
  // 64 strips x 32 blocks: a block of K and V, the strip's Q in and O in and out
  EXPECT_DOUBLE_EQ(p.levels[1].bytes, 64 * 32 * (128 * 128 * 4.0 + 64 * (64 * 4.0 + 2 * 64 * 4)));
  EXPECT_EQ(p.levels[2].level, "LLC");
  EXPECT_DOUBLE_EQ(p.levels[2].bytes, 8 * 4096 * 128 * 4.0 + 4096 * 128 * 4.0);
}

TEST(ProjectTime, DecodeIsBoundByMemory) {
  Shape s = Prefill(1, 128, 32);
  s.kv_heads = 8;
  s.kv_len = 32768;
  const Schedule block = *Schedule::Parse("L2:query-resident:4x128 L1:query-resident:4x128 pack:block");
  const CpuProjection p = *ProjectTime(s, TestMachine(), block, Options(1));
  EXPECT_EQ(p.bound, "packing");
  const double bytes = 8 * 32768.0 * 256 * 4;  // 256 MiB: from memory
  EXPECT_GE(p.packing_seconds, bytes / 10e9);
}

TEST(ProjectTime, ThreadsShareWorkAndBandwidth) {
  const Shape s = Prefill(4096, 64, 4);
  const CpuProjection one = *ProjectTime(s, TestMachine(), kSchedule, Options(1));
  const CpuProjection four = *ProjectTime(s, TestMachine(), kSchedule, Options(4));
  EXPECT_DOUBLE_EQ(four.product_seconds, one.product_seconds / 4);
  EXPECT_DOUBLE_EQ(four.packing_seconds,
                   one.packing_seconds / 2);  // the LLC feeds four threads at twice the rate of one
  // 32 tiles for 3 threads: 11 of them
  EXPECT_DOUBLE_EQ(ProjectTime(s, TestMachine(), kSchedule, Options(3))->product_seconds,
                   one.product_seconds * 11 / 32);
}

TEST(ProjectTime, CausalHalvesTheWork) {
  Shape s = Prefill(8192, 64, 1);
  const double dense = ProjectTime(s, TestMachine(), kSchedule, Options(1))->product_seconds;
  s.right = 0;
  const double causal = ProjectTime(s, TestMachine(), kSchedule, Options(1))->product_seconds;
  EXPECT_NEAR(causal / dense, 0.5, 0.02);
  EXPECT_GT(causal / dense, 0.5);
}

TEST(ProjectTime, NeedsRates) {
  Machine m = TestMachine();
  m.fma_flops = 0;
  EXPECT_FALSE(ProjectTime(Prefill(64, 64, 1), m, kSchedule, Options(1)).ok());
  m = TestMachine();
  m.levels[2].bytes_per_second = 0;
  EXPECT_FALSE(ProjectTime(Prefill(64, 64, 1), m, kSchedule, Options(1)).ok());
  EXPECT_FALSE(ProjectTime(Prefill(64, 64, 1), TestMachine(), {}, Options(1)).ok());
  CpuOptions none = Options(0);
  EXPECT_FALSE(ProjectTime(Prefill(64, 64, 1), TestMachine(), kSchedule, none).ok());
}

}  // namespace
}  // namespace attenio
