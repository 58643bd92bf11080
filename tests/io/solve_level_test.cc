#include <gtest/gtest.h>

#include <cmath>

#include "io/capacity.h"
#include "io/random_io.h"

namespace attenio {
namespace {

constexpr Dataflow kAll[] = {Dataflow::kQueryResident, Dataflow::kKeyResident, Dataflow::kScoreResident,
                             Dataflow::kRowBuffered, Dataflow::kUnfused};

MemoryLevel Scratchpad(int64_t bytes) {
  MemoryLevel l;
  l.name = "pad";
  l.bytes = bytes;
  return l;
}

double Cost(const LevelTile& t, const Shape& s, const SolveOptions& o) {
  Schedule schedule;
  schedule.levels = {t};
  return Bytes(Predict(schedule, s, 0, RowStats::kDropped), o);
}

// Every tile of every dataflow that fits, on thousands of small problems: none is cheaper than the solver's, per dataflow and
// over all of them; no prediction is below its lower bound; and the solver finds a tile whenever there is one.
TEST(SolveLevel, BruteForceFindsNothingCheaper) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Random r(seed);
    Shape s;
    s.q_heads = r.Int(1, 2);
    s.q_len = r.Int(1, 14);
    s.kv_len = r.Int(1, 14);
    s.qk_dim = r.Int(1, 5);
    s.v_dim = r.Int(1, 5);
    SolveOptions o;
    o.packed_bytes = o.out_bytes = 1;
    if (seed % 2 == 1) o.quantum = {r.Int(1, 3), r.Int(1, 3), 1};
    MemoryLevel level = Scratchpad(r.Int(1, 160));
    if (seed % 3 == 2) level.ways = r.Int(1, 4);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + Describe(s) + " words " + std::to_string(level.bytes));
    const io::Residency fits{level.ways > 0, {s.qk_dim, s.v_dim, 1, 1}, level.ways > 0 ? o.quantum.rows : 0, s.kv_len};
    double best = INFINITY;
    for (const Dataflow d : kAll) {
      double best_of_dataflow = INFINITY;
      for (int64_t rows = o.quantum.rows; rows < s.rows() + o.quantum.rows; rows += o.quantum.rows) {
        for (int64_t keys = o.quantum.keys; keys < s.kv_len + o.quantum.keys; keys += o.quantum.keys) {
          if (fits.Bytes(d, rows, keys) > io::UsableBytes(level)) continue;
          const double cost = Cost({"pad", d, rows, keys}, s, o);
          best_of_dataflow = std::min(best_of_dataflow, cost);
          const BoundKind kind = d == Dataflow::kUnfused ? BoundKind::kCompulsory
                                 : d == Dataflow::kQueryResident || d == Dataflow::kKeyResident
                                     ? BoundKind::kPairsResident
                                     : BoundKind::kScoreOnce;
          ASSERT_GE(cost, LowerBound(s, static_cast<double>(level.bytes), kind))
              << Name(d) << " " << rows << "x" << keys;
        }
      }
      const Result<LevelTile> tile = SolveLevel(s, level, o, d);
      ASSERT_EQ(tile.ok(), best_of_dataflow < INFINITY) << Name(d);
      if (!tile.ok()) continue;
      ++solved;
      ASSERT_LE(fits.Bytes(d, tile->queries, tile->keys), io::UsableBytes(level)) << Name(d);
      ASSERT_EQ(tile->queries % o.quantum.rows, 0);
      ASSERT_EQ(tile->keys % o.quantum.keys, 0);
      ASSERT_EQ(Cost(*tile, s, o), best_of_dataflow) << Name(d) << " " << tile->queries << "x" << tile->keys;
      best = std::min(best, best_of_dataflow);
    }
    const Result<LevelTile> tile = SolveLevel(s, level, o);
    ASSERT_EQ(tile.ok(), best < INFINITY);
    if (tile.ok()) {
      ASSERT_EQ(Cost(*tile, s, o), best);
    }
  }
  EXPECT_GT(solved, 8000);  // the problems are not all too small to solve
}

// Causal: the solver's balanced tiles are within a row tile's rounding of the brute-force optimum.
TEST(SolveLevel, CausalIsWithinRoundingOfBruteForce) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Random r(seed);
    Shape s;
    s.q_len = s.kv_len = r.Int(1, 60);
    s.qk_dim = s.v_dim = r.Int(1, 4);
    s.right = 0;
    SolveOptions o;
    o.packed_bytes = o.out_bytes = 1;
    const MemoryLevel level = Scratchpad(r.Int(30, 300));
    const io::Residency fits{false, {s.qk_dim, s.v_dim, 1, 1}, 0, s.kv_len};
    double best = INFINITY;
    for (int64_t rows = 1; rows <= s.rows(); ++rows) {
      if (fits.Bytes(Dataflow::kQueryResident, rows, 1) > level.bytes) break;
      best = std::min(best, Cost({"pad", Dataflow::kQueryResident, rows, 1}, s, o));
    }
    const Result<LevelTile> tile = SolveLevel(s, level, o, Dataflow::kQueryResident);
    ASSERT_EQ(tile.ok(), best < INFINITY);
    if (tile.ok()) {
      EXPECT_LE(Cost(*tile, s, o), 1.05 * best) << "seed " << seed;
    }
  }
}

// The same for score-resident tiles under bands, where sizes are tried in steps: within 2 %.
TEST(SolveLevel, BandedScoresAreNearTheBest) {
  for (const auto& [left, right] : {std::pair<int64_t, int64_t>{kUnbounded, 0}, {100, 0}, {700, 500}}) {
    Shape s;
    s.q_len = s.kv_len = 4000;
    s.qk_dim = s.v_dim = 64;
    s.left = left;
    s.right = right;
    SolveOptions o;
    o.packed_bytes = o.out_bytes = 1;
    const MemoryLevel level = Scratchpad(2000);
    const io::Residency fits{false, {64, 64, 1, 1}, 0, s.kv_len};
    double best = INFINITY;
    for (int64_t rows = 1; rows <= 2000; ++rows) {
      const int64_t keys = fits.MaxKeys(Dataflow::kScoreResident, level.bytes, rows);
      if (keys > 0) best = std::min(best, Cost({"pad", Dataflow::kScoreResident, rows, keys}, s, o));
    }
    EXPECT_LE(Cost(*SolveLevel(s, level, o, Dataflow::kScoreResident), s, o), 1.02 * best) << left << " " << right;
  }
}

// Numbers anywhere up to the largest allowed: an answer that fits or a reason, at once (a loop over tiles would not end).
TEST(SolveLevel, HostileProblemsReturn) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random r(seed);
    const HostileProblem p(&r);
    for (const MemoryLevel& level : p.machine.levels) {
      for (const Dataflow d : kAll) {
        const Result<LevelTile> tile = SolveLevel(p.shape, level, p.options, d);
        if (!tile.ok()) continue;
        ++solved;
        const io::Dims dims{p.shape.qk_dim, p.shape.v_dim, p.options.packed_bytes, p.options.out_bytes};
        const io::Residency fits{level.ways > 0, dims, level.ways > 0 ? p.options.quantum.rows : 0, p.shape.kv_len};
        ASSERT_TRUE(fits.Bytes(d, tile->queries, tile->keys) <= io::UsableBytes(level))
            << "seed " << seed << " " << Name(d);
      }
    }
  }
  EXPECT_GT(solved, 10000);
}

// Once found by a caller that gave such numbers.
TEST(SolveLevel, ManyTilesUnderABand) {
  Shape s;
  s.q_heads = int64_t{1} << 40;
  s.kv_heads = 65536;
  s.q_len = 190;
  s.kv_len = 242;
  s.qk_dim = s.v_dim = 64;
  s.right = 0;
  SolveOptions o;
  o.threads = int64_t{1} << 60;
  EXPECT_TRUE(SolveLevel(s, Scratchpad(32 << 10), o).ok());
  s.q_heads = s.kv_heads = 1;
  s.q_len = 221;
  s.kv_len = 130;
  s.offset = 65536;
  s.right = int64_t{1} << 31;
  EXPECT_TRUE(SolveLevel(s, Scratchpad(32 << 10), o).ok());
  s.right = -2;
  EXPECT_FALSE(SolveLevel(s, Scratchpad(32 << 10), o).ok());
  s.right = 0;
  s.q_heads = s.q_len = int64_t{1} << 40;
  EXPECT_FALSE(SolveLevel(s, Scratchpad(32 << 10), o).ok());  // 2^80 rows
}

// The score-resident regime takes over below about 0.69 d^2 words.
TEST(SolveLevel, RegimeSwitch) {
  SolveOptions o;
  o.packed_bytes = o.out_bytes = 1;
  for (const int64_t d : {64, 128, 256}) {
    Shape s;
    s.q_len = s.kv_len = 1 << 16;
    s.qk_dim = s.v_dim = d;
    int64_t words = d * d / 2;
    while (SolveLevel(s, Scratchpad(words), o)->dataflow == Dataflow::kScoreResident) words += d;
    EXPECT_GT(static_cast<double>(words), 0.64 * d * d);
    EXPECT_LT(static_cast<double>(words), 0.76 * d * d);
    EXPECT_EQ(SolveLevel(s, Scratchpad(4 * d * d), o)->dataflow, Dataflow::kQueryResident);
  }
}

TEST(SolveLevel, KeysThatFitStay) {
  Shape s;  // few keys, many queries: K and V stay, everything moves once
  s.q_len = 100000;
  s.kv_len = 77;
  s.qk_dim = s.v_dim = 64;
  SolveOptions o;
  const Result<LevelTile> tile = SolveLevel(s, Scratchpad(256 * 1024), o);
  ASSERT_TRUE(tile.ok());
  EXPECT_EQ(tile->dataflow, Dataflow::kKeyResident);
  EXPECT_EQ(Cost(*tile, s, o), 4 * LowerBound(s, 64 * 1024, BoundKind::kCompulsory));
}

TEST(SolveLevel, Absurd) {
  Shape s;
  s.q_len = s.kv_len = 10;
  s.qk_dim = s.v_dim = 4;
  SolveOptions o;
  for (const int64_t bytes : {0, 1, 4, 16}) EXPECT_FALSE(SolveLevel(s, Scratchpad(bytes), o).ok()) << bytes;
  MemoryLevel bad = Scratchpad(1 << 20);
  bad.sharers = 0;
  EXPECT_FALSE(SolveLevel(s, bad, o).ok());
  s.q_len = int64_t{1} << 41;
  EXPECT_FALSE(SolveLevel(s, Scratchpad(1 << 20), o).ok());
  s = {};
  EXPECT_TRUE(SolveLevel(s, Scratchpad(1 << 20), o).ok());  // nothing to do fits anywhere
  s.q_len = s.kv_len = int64_t{1} << 40;
  s.qk_dim = s.v_dim = int64_t{1} << 40;
  const Result<LevelTile> tile = SolveLevel(s, Scratchpad(1 << 20), o);
  ASSERT_TRUE(tile.ok()) << tile.status().message();
  EXPECT_EQ(tile->dataflow, Dataflow::kScoreResident);
}

}  // namespace
}  // namespace attenio
