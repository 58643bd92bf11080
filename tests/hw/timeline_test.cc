#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "base/math.h"
#include "hw/hw_shapes.h"
#include "hw/timeline.h"

namespace attenio {
namespace {

// ---------------------------------------------------------------- closed forms of one iteration (AttenIO, Sec. 4 to 6)

TEST(Tiles, LargestRowsOfThePaper) {
  EXPECT_EQ(HwSchedule({}, HwShape(8192, 64), {})->levels[0].queries, 1985);
  EXPECT_EQ(HwSchedule({}, HwShape(8192, 128), {})->levels[0].queries, 1007);
  EXPECT_EQ(HwSchedule({}, HwShape(8192, 64), {})->levels[0].keys, 1);
  EXPECT_EQ(HwSchedule({}, HwShape(8192, 64), With(HwDataflow::kAttenio, TileRule::kBalanced))->levels[0].queries,
            1639);
}

TEST(Tiles, BaselinesOfThePaper) {
  const auto tile = [](HwDataflow dataflow, int64_t n, int64_t d) {
    return HwSchedule({}, HwShape(n, d), With(dataflow))->levels[0];
  };
  EXPECT_EQ(tile(HwDataflow::kFlash2, 8192, 64), (LevelTile{"cache", Dataflow::kQueryResident, 64, 1024}));
  EXPECT_EQ(tile(HwDataflow::kFlash2, 8192, 128), (LevelTile{"cache", Dataflow::kQueryResident, 128, 512}));
  EXPECT_EQ(tile(HwDataflow::kFlat, 8192, 64), (LevelTile{"cache", Dataflow::kRowBuffered, 31, 8192}));
  EXPECT_EQ(tile(HwDataflow::kFlat, 131072, 64), (LevelTile{"cache", Dataflow::kRowBuffered, 1, 131072}));
  EXPECT_EQ(tile(HwDataflow::kStandard, 8192, 64), (LevelTile{"cache", Dataflow::kUnfused, 512, 512}));
}

hw::Run MakeRun(int64_t n, int64_t d, const ProjectOptions& options) {
  return hw::MakeRun({}, HwShape(n, d), options).value();
}

TEST(Costs, OneKeyOnTheArray) {
  for (const auto& [d, rows] : {std::pair<int64_t, int64_t>{64, 1985}, {128, 1007}}) {
    const hw::Run run = MakeRun(8192, d, {});
    const hw::Costs costs(run);
    EXPECT_EQ(costs.QK(rows, 1), 64);  // d = 128: two MACs share a row
    EXPECT_EQ(costs.PV(rows, 1), 64);
    EXPECT_EQ(costs.Transfer(d), d == 64 ? 1 : 2);
  }
}

TEST(Costs, WavesAndSharing) {
  const hw::Run run = MakeRun(8192, 64, {});
  const hw::Costs costs(run);
  EXPECT_EQ(costs.Matmul(2048, 64), 64);
  EXPECT_EQ(costs.Matmul(2049, 64), 64 + 1);      // the last pair is shared by 64 MACs
  EXPECT_EQ(costs.Matmul(4096 + 1024, 64), 160);  // two MACs a pair in the last wave
  EXPECT_EQ(costs.Matmul(1, 64), 1);
  EXPECT_EQ(costs.Matmul(64 * 1024, 64), 2048);
}

TEST(Costs, SoftmaxPasses) {
  const hw::Run pipelined = MakeRun(8192, 64, {});
  EXPECT_EQ(hw::Costs(pipelined).Softmax(1985, 1), 32);
  EXPECT_EQ(hw::Costs(pipelined).SoftmaxHidden(1985, 1), 3);
  EXPECT_EQ(hw::Costs(pipelined).SoftmaxHidden(100, 1), 1);  // one of two passes stays
  ProjectOptions serial;
  serial.overlap = HwOverlap{true, true, true, false};
  const hw::Run passes = MakeRun(8192, 64, serial);
  EXPECT_EQ(hw::Costs(passes).Softmax(1985, 1), 7 * 16);
  EXPECT_EQ(hw::Costs(passes).SoftmaxHidden(1985, 1), 0);
  const hw::Run block = MakeRun(8192, 64, With(HwDataflow::kFlash2));
  EXPECT_EQ(hw::Costs(block).Softmax(64, 1024), 4 * 512 + 3);
}

TEST(Costs, FuseMaxTiles) {
  const hw::Run run = hw::MakeRun(FusemaxCloud(), HwShape(65536, 64), With(HwDataflow::kFusemax)).value();
  const hw::Costs costs(run);
  EXPECT_EQ(costs.Fused2D(256, 256), 137);
  EXPECT_EQ(costs.Fused1D(256, 256), 138);
  EXPECT_EQ(costs.Finish1D(256), 64);
}

// The period of the inner iteration, from two lengths that differ by one key.
int64_t Period(int64_t d, const ProjectOptions& options) {
  Shape a = HwShape(1985, d), b = a;
  a.q_len = b.q_len = d == 64 ? 1985 : 1007;
  b.kv_len = a.kv_len + 1;
  return Project({}, b, options)->cycles - Project({}, a, options)->cycles;
}

TEST(Timeline, SteadyStateOfAttenio) {
  EXPECT_EQ(Period(64, {}), 128 + 32 - 3);
  EXPECT_EQ(Period(128, {}), 128 + 16 - 3);
}

TEST(Timeline, EachSwitchCostsWhatItHid) {
  const auto period = [](int64_t d, HwOverlap overlap) {
    ProjectOptions options;
    options.overlap = overlap;
    return Period(d, options);
  };
  EXPECT_EQ(period(64, {false, true, true, true}), 157 + 1);
  EXPECT_EQ(period(64, {true, false, true, true}), 157 + 1);
  EXPECT_EQ(period(128, {false, false, true, true}), 141 + 2 + 2);
  EXPECT_EQ(period(64, {true, true, true, false}), 128 + 112);
  EXPECT_EQ(period(64, {true, true, false, true}), 157);  // between tiles only
}

TEST(Timeline, InterOuterOverlapSavesTimePerTile) {
  ProjectOptions off;
  off.overlap = HwOverlap{true, true, false, true};
  const Projection with = *Project({}, HwShape(8192, 64)), without = *Project({}, HwShape(8192, 64), off);
  EXPECT_LT(with.cycles, without.cycles);
  EXPECT_LT(with.stall, without.stall);
  EXPECT_EQ(with.bytes.total(), without.bytes.total());
  EXPECT_EQ(with.pe_busy, without.pe_busy);
}

TEST(Timeline, Flash2TileIsSerial) {
  // Two more blocks of 1024 keys for one tile of 64 rows: 2 Br Bc d / 2048, K and V, four passes and three a row.
  Shape a = HwShape(64, 64), b = a;
  a.kv_len = 1024;
  b.kv_len = 3072;
  const ProjectOptions options = With(HwDataflow::kFlash2);
  EXPECT_EQ(Project({}, b, options)->cycles - Project({}, a, options)->cycles, 2 * (4096 + 2048 + 2048 + 3));
}

TEST(Timeline, Flash2IsAttenioWithoutItsIdeas) {
  ProjectOptions stripped = With(HwDataflow::kAttenio, TileRule::kFlash2);
  stripped.overlap = HwOverlap{false, false, false, false};
  for (const int64_t d : {64, 128}) {
    const Projection a = *Project({}, HwShape(16384, d), stripped);
    const Projection b = *Project({}, HwShape(16384, d), With(HwDataflow::kFlash2));
    EXPECT_EQ(a.cycles, b.cycles);
    EXPECT_EQ(a.bytes.total(), b.bytes.total());
  }
}

TEST(Timeline, StallsAreWhatIsLeftOfTheChain) {
  // In order, every cycle belongs to the array, to the EXP unit (what hides of it aside) or to a wait for memory.
  for (const HwDataflow dataflow :
       {HwDataflow::kAttenio, HwDataflow::kFlash2, HwDataflow::kFlat, HwDataflow::kStandard}) {
    Accelerator hw;
    hw.softmax_overlap_cycles = 0;
    const Projection p = *Project(hw, HwShape(4096, 64, 2), With(dataflow));
    EXPECT_EQ(p.pe_busy + p.exp_busy + p.stall, p.cycles) << Name(dataflow);
  }
}

TEST(Timeline, LatencyIsExposedOnceItExceedsTheProduct) {
  Accelerator hw;
  const Shape s = HwShape(2 * 1985, 64);
  const int64_t none = Project(hw, s)->cycles;
  hw.memory_latency_cycles = 60;  // 1 + 60 < 64: hidden but for the tile changes
  EXPECT_LT(Project(hw, s)->cycles, none + 2 * 4 * 61);
  hw.memory_latency_cycles = 100;  // every key, V: 101 - (64 + 29), K: 101 - 64
  EXPECT_NEAR(static_cast<double>(Project(hw, s)->cycles - none), 2 * 3970 * (8 + 37), 1000);
}

// ---------------------------------------------------------------- words moved

TEST(Traffic, ClosedForms) {
  for (const int64_t d : {64, 128}) {
    for (const int64_t n : {8192, 32768}) {
      const double nd = static_cast<double>(n * d);
      const auto words = [&](HwDataflow dataflow) {
        return Project({}, HwShape(n, d), With(dataflow))->bytes.total() / 2;
      };
      const int64_t a = d == 64 ? 1985 : 1007, rows = 262144 / (n + 2 * d);
      EXPECT_EQ(words(HwDataflow::kAttenio), 2 * nd * static_cast<double>(1 + CeilDiv(n, a)));
      EXPECT_EQ(words(HwDataflow::kFlash2), 2 * nd * static_cast<double>(1 + n / d));
      EXPECT_EQ(words(HwDataflow::kFlat), 2 * nd * static_cast<double>(1 + CeilDiv(n, rows)));
      const auto nn = static_cast<double>(n * n);
      EXPECT_EQ(words(HwDataflow::kStandard), 4 * nn + 2 * nn * static_cast<double>(d) / 512 + 2 * nd);
    }
  }
}

TEST(Traffic, GroupedHeadsShareKeys) {
  Shape grouped = HwShape(4096, 64, 8);
  grouped.kv_heads = 2;
  const Traffic t = Project({}, grouped)->bytes;
  const int64_t tiles = CeilDiv(4 * 4096, 1985);
  EXPECT_EQ(t.k, static_cast<double>(2 * 2 * tiles * 4096 * 64));
  EXPECT_EQ(t.q, static_cast<double>(2 * 8 * 4096 * 64));
}

TEST(Traffic, CausalSkipsBlocksAboveTheDiagonal) {
  Shape s = HwShape(65536, 64);
  const Projection dense = *Project({}, s);
  s.right = 0;
  const Projection causal = *Project({}, s);
  double keys = 0;
  for (int64_t end = 1985; end < 65536 + 1985; end += 1985) keys += static_cast<double>(std::min<int64_t>(end, 65536));
  EXPECT_EQ(causal.bytes.k, keys * 64 * 2);
  EXPECT_NEAR(static_cast<double>(causal.cycles) / static_cast<double>(dense.cycles), 35.0 / 68, 0.01);
  // A block that the diagonal crosses is computed whole.
  Shape small = HwShape(1024, 64);
  small.right = 0;
  EXPECT_EQ(Project({}, small, With(HwDataflow::kFlash2))->pe_busy,
            Project({}, HwShape(1024, 64), With(HwDataflow::kFlash2))->pe_busy);
}

// ---------------------------------------------------------------- folding

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t Int(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(engine_); }
  bool Flip() { return Int(0, 1) == 1; }

 private:
  std::mt19937_64 engine_;
};

struct Case {
  Accelerator hw;
  Shape shape;
  ProjectOptions options;
};

Case RandomCase(uint64_t seed) {
  Random r(seed);
  Case c;
  if (r.Int(0, 3) == 0) c.hw = FusemaxCloud();
  c.hw.mac_lines = r.Int(1, 16);
  c.hw.macs_per_line = r.Int(1, 16);
  c.hw.exp_modules = r.Int(1, 32);
  c.hw.kv_buffer_bytes = 0;
  c.hw.cache_bytes = 2 * r.Int(400, 6000);
  c.hw.memory_channels = r.Int(1, 4);
  c.hw.channel_bytes_per_second = static_cast<double>(r.Int(1, 8)) * 1e9;
  c.hw.memory_latency_cycles = r.Flip() ? 0 : r.Int(1, 50);
  c.hw.softmax_overlap_cycles = r.Int(0, 5);
  c.hw.spill_rows = r.Int(1, 64);
  c.shape = HwShape(1, 1);
  c.shape.batch = r.Int(1, 3);
  c.shape.kv_heads = r.Int(1, 3);
  c.shape.q_heads = c.shape.kv_heads * r.Int(1, 2);
  c.shape.q_len = r.Int(1, 300);
  c.shape.kv_len = r.Int(1, 700);
  c.shape.qk_dim = r.Int(1, 12);
  c.shape.v_dim = r.Int(1, 12);
  if (r.Flip()) {
    c.shape.right = r.Int(0, 5);
    c.shape.offset = r.Int(-50, 500);
    if (r.Int(0, 3) == 0) c.shape.left = r.Int(0, 400);
  }
  c.options.dataflow = kHwDataflows[r.Int(0, 4)];
  c.options.tile = static_cast<TileRule>(r.Int(0, 4));
  if (r.Flip()) c.options.overlap = HwOverlap{r.Flip(), r.Flip(), r.Flip(), r.Flip()};
  return c;
}

void ExpectSame(const Projection& a, const Projection& b) {
  EXPECT_EQ(a.cycles, b.cycles);
  EXPECT_EQ(a.pe_busy, b.pe_busy);
  EXPECT_EQ(a.exp_busy, b.exp_busy);
  EXPECT_EQ(a.memory_busy, b.memory_busy);
  EXPECT_EQ(a.stall, b.stall);
  EXPECT_EQ(a.exponentials, b.exponentials);
  EXPECT_EQ(a.bytes.q, b.bytes.q);
  EXPECT_EQ(a.bytes.k, b.bytes.k);
  EXPECT_EQ(a.bytes.v, b.bytes.v);
  EXPECT_EQ(a.bytes.out, b.bytes.out);
  EXPECT_EQ(a.bytes.scores, b.bytes.scores);
}

TEST(Folding, EqualsEveryEventToTheCycle) {
  int folded = 0;
  std::map<std::string, int> runs;
  for (uint64_t seed = 1; seed <= 5000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case c = RandomCase(seed);
    const Result<Projection> fast = Project(c.hw, c.shape, c.options);
    c.options.every_event = true;
    const Result<Projection> slow = Project(c.hw, c.shape, c.options);
    ASSERT_EQ(fast.ok(), slow.ok());
    if (!fast.ok()) continue;
    ExpectSame(*fast, *slow);
    folded += fast->steps < slow->steps ? 1 : 0;
    ++runs[Name(c.options.dataflow)];
    if (HasFailure()) break;
  }
  EXPECT_GT(folded, 1000);  // else nothing was shown
  EXPECT_EQ(runs.size(), 5u);
}

TEST(Folding, EqualsEveryEventOnThePapersHardware) {
  for (const HwDataflow dataflow : kHwDataflows) {
    for (const bool causal : {false, true}) {
      Shape s = HwShape(8192, 64, 3);
      if (causal) s.right = 0;
      ProjectOptions options = With(dataflow);
      const Projection fast = *Project({}, s, options);
      options.every_event = true;
      ExpectSame(fast, *Project({}, s, options));
    }
  }
}

TEST(Folding, AMillionTokensTakeFewSteps) {
  // What bounds the time of a projection: steps that are walked, about 20 ns each.
  for (const HwDataflow dataflow : kHwDataflows) {
    for (const bool causal : {false, true}) {
      Shape s = HwShape(1 << 20, 64, 32);
      if (causal) s.right = 0;
      const Result<Projection> p = Project({}, s, With(dataflow));
      ASSERT_TRUE(p.ok());
      EXPECT_LE(p->steps, 20'000'000) << Name(dataflow);
      EXPECT_GE(static_cast<double>(p->cycles), s.Flops() / (2 * 2048)) << Name(dataflow);
    }
  }
}

// ---------------------------------------------------------------- events

TEST(Events, KeepTheirOrder) {
  for (const HwDataflow dataflow : kHwDataflows) {
    const Shape s = HwShape(3000, 64);
    const Result<std::vector<Event>> events = HwTimeline({}, s, With(dataflow), {0, INT64_MAX});
    ASSERT_TRUE(events.ok());
    std::map<Resource, int64_t> free, busy;
    std::map<Work, int64_t> latest;
    for (const Event& e : *events) {
      EXPECT_GE(e.begin, free[e.resource]) << Name(dataflow) << ' ' << Name(e.work);  // one thing at a time
      free[e.resource] = e.end;
      busy[e.resource] += e.end - e.begin;
      if (dataflow == HwDataflow::kAttenio) {
        if (e.work == Work::kQK) {
          EXPECT_GE(e.begin, latest[Work::kLoadQ]);
        }
        if (e.work == Work::kPV) {
          EXPECT_GE(e.begin, std::max(latest[Work::kLoadV], latest[Work::kSoftmax]));
        }
      }
      if (e.work == Work::kStoreO && dataflow != HwDataflow::kFusemax) {
        EXPECT_GE(e.begin, latest[Work::kFinish]);
      }
      latest[e.work] = e.end;
    }
    const Projection p = *Project({}, s, With(dataflow));
    EXPECT_EQ(busy[Resource::kPe], p.pe_busy);
    EXPECT_EQ(busy[Resource::kExp], p.exp_busy);
    EXPECT_EQ(busy[Resource::kMemory], p.memory_busy);
  }
}

TEST(Events, WindowKeepsWhatTouchesIt) {
  const std::vector<Event> all = *HwTimeline({}, HwShape(512, 64), {}, {0, INT64_MAX});
  const std::vector<Event> some = *HwTimeline({}, HwShape(512, 64), {}, {3000, 4000});
  const auto touches = [](const Event& e) { return e.begin < 4000 && e.end > 3000; };
  EXPECT_EQ(static_cast<std::ptrdiff_t>(some.size()), std::count_if(all.begin(), all.end(), touches));
  EXPECT_TRUE(std::all_of(some.begin(), some.end(), touches));
  EXPECT_GT(some.size(), 10u);
}

}  // namespace
}  // namespace attenio
