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
  EXPECT_NEAR(p.product_seconds, pairs * 2 * 128 / 100e9, 1e-12);
  EXPECT_NEAR(p.exp_seconds, pairs / 1e9, 1e-12);
  EXPECT_EQ(p.bound, "products");
  // 16 MiB of f32 tensors, 8 MiB packed: K and V from the LLC to the LLC; Q and O between LLC and L2.
  const double kv = 4 * 4096.0 * 128 * 4;
  EXPECT_NEAR(p.packing_seconds, kv / 50e9 * 2 + kv * (1 / 50e9 + 1 / 100e9), 1e-12);
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
  EXPECT_NEAR(four.product_seconds, one.product_seconds / 4, 1e-12);
  // The LLC feeds four threads at twice the rate of one, their L2s at four times.
  const double kv = 4 * 4096.0 * 128 * 4;
  EXPECT_NEAR(four.packing_seconds, kv / 100e9 * 2 + kv * (1 / 100e9 + 1 / 400e9), 1e-12);
  // 32 tiles for 3 threads: 11 of them
  EXPECT_NEAR(ProjectTime(s, TestMachine(), kSchedule, Options(3))->product_seconds, one.product_seconds * 11 / 32, 1e-12);
}

TEST(ProjectTime, CausalHalvesTheWork) {
  Shape s = Prefill(8192, 64, 1);
  const double dense = ProjectTime(s, TestMachine(), kSchedule, Options(1))->product_seconds;
  s.right = 0;
  const double causal = ProjectTime(s, TestMachine(), kSchedule, Options(1))->product_seconds;
  EXPECT_NEAR(causal / dense, 0.5, 0.02);
  EXPECT_GT(causal / dense, 0.5);
}

// A kernel that few rows do not fill.
Machine MachineWithKernel() {
  Machine m = TestMachine();
  m.kernels = {{.kernel = "k",
                .tiles = {{1, 10e9, 0.5e9}, {4, 40e9, 2e9}, {14, 80e9, 4e9}},
                .packing = {{4, 10e9}}}};
  return m;
}

TEST(ProjectTime, RatesOfTheKernelCount) {
  const Shape s = Prefill(4096, 64, 1);
  CpuOptions o = Options(1);
  o.quantum.rows = 16;  // no strip of 64 rows has a rest
  o.kernel = "k";
  Machine m = MachineWithKernel();
  m.kernels[0].tiles.back().rows = 16;
  const double pairs = 4096.0 * 4096;
  const CpuProjection p = *ProjectTime(s, m, kSchedule, o);
  EXPECT_NEAR(p.product_seconds, pairs * 256 / 80e9, 1e-12);
  EXPECT_NEAR(p.exp_seconds, pairs / 4e9, 1e-12);
  // Code that packs 10 GB/s is slower than every level: K and V, Q and O.
  EXPECT_NEAR(p.packing_seconds, 2 * 4096.0 * 128 * 4 / 10e9, 1e-12);
  o.product_flops = 160e9;
  EXPECT_NEAR(ProjectTime(s, m, kSchedule, o)->product_seconds, p.product_seconds / 2, 1e-12);
  o.kernel = "another";  // not measured: the machine's own rates
  o.product_flops = 0;
  EXPECT_NEAR(ProjectTime(s, m, kSchedule, o)->product_seconds, pairs * 256 / 100e9, 1e-12);
}

TEST(ProjectTime, FewRowsCostWhatTheirTileCosts) {
  const Machine m = MachineWithKernel();
  CpuOptions o = Options(1);
  o.kernel = "k";
  const Schedule block = *Schedule::Parse("L2:query-resident:14x128 L1:query-resident:14x128 pack:block");
  const auto products = [&](int64_t rows) {
    Shape s = Prefill(rows, 64, 1);
    s.kv_len = 1024;
    return ProjectTime(s, m, block, o)->product_seconds / (1024 * 256.0);  // of one key and flop
  };
  EXPECT_NEAR(products(1), 1 / 10e9, 1e-15);
  EXPECT_NEAR(products(4), 4 / 40e9, 1e-15);
  EXPECT_NEAR(products(14), 14 / 80e9, 1e-15);
  EXPECT_NEAR(products(9), (4 / 40e9 + 14 / 80e9) / 2, 1e-15);  // half-way between four and fourteen
  EXPECT_NEAR(products(2), 1 / 10e9, 1e-15);
  EXPECT_NEAR(products(15), 14 / 80e9 + 1 / 10e9, 1e-15);  // a full tile and one of a single row
}

// More work of any kind never takes less time, on any machine.
TEST(ProjectTime, Monotonic) {
  const Machine m = MachineWithKernel();
  CpuOptions o = Options(1);
  o.kernel = "k";
  double last = 0;
  for (int64_t n = 1; n < 3000; n += 37) {
    const double now = ProjectTime(Prefill(n, 64, 2), m, kSchedule, o)->seconds;
    EXPECT_GE(now, last) << n;
    last = now;
  }
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
