#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "io/random_io.h"

namespace attenio {
namespace {

std::vector<Step> Collect(const Schedule& schedule, const Shape& shape, Range rows, int depth) {
  std::vector<Step> steps;
  ForEachStep(
      schedule, shape, rows, [&](const Step& s) { steps.push_back(s); }, depth);
  return steps;
}

bool AnyAllowed(const Shape& s, Range rows, Range keys, bool wanted) {
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      if (Allowed(s, i, j) == wanted) return true;
    }
  }
  return false;
}

// How often each operation covers each (row, key); fused steps count for all three.
using Coverage = std::map<Op, std::vector<int>>;

Coverage Cover(const std::vector<Step>& steps, const Shape& s) {
  Coverage c;
  for (const Op op : {Op::kQK, Op::kSoftmax, Op::kPV}) c[op].assign(s.rows() * s.kv_len, 0);
  for (const Step& step : steps) {
    for (auto& [op, count] : c) {
      if (step.op != op && step.op != Op::kFused) continue;
      for (int64_t i = step.queries.begin; i < step.queries.end; ++i) {
        for (int64_t j = step.keys.begin; j < step.keys.end; ++j) ++count[i * s.kv_len + j];
      }
    }
  }
  return c;
}

void CheckSteps(const std::vector<Step>& steps, const Shape& s, Range rows) {
  const Coverage coverage = Cover(steps, s);
  for (const auto& [op, count] : coverage) {
    for (int64_t i = 0; i < s.rows(); ++i) {
      for (int64_t j = 0; j < s.kv_len; ++j) {
        const bool wanted = i >= rows.begin && i < rows.end && Allowed(s, i, j);
        const int times = count[i * s.kv_len + j];
        ASSERT_TRUE(wanted ? times == 1 : times <= 1)
            << "op " << int(op) << " row " << i << " key " << j << " " << times;
      }
    }
  }
  std::map<std::pair<Op, int64_t>, int64_t> frontier;  // (op, row) -> keys done so far
  for (size_t k = 0; k < steps.size(); ++k) {
    const Step& step = steps[k];
    ASSERT_TRUE(AnyAllowed(s, step.queries, step.keys, true));
    ASSERT_EQ(step.edge, AnyAllowed(s, step.queries, step.keys, false));
    const bool end = k + 1 == steps.size();
    ASSERT_EQ(step.next_queries, end ? Range{} : steps[k + 1].queries);
    ASSERT_EQ(step.next_keys, end ? Range{} : steps[k + 1].keys);
    bool earlier = false, later = false;
    for (size_t o = 0; o < steps.size(); ++o) {
      if (o == k || steps[o].op != step.op) continue;
      if (steps[o].queries.begin >= step.queries.end || steps[o].queries.end <= step.queries.begin) continue;
      (o < k ? earlier : later) = true;
    }
    ASSERT_EQ(step.first, !earlier);
    ASSERT_EQ(step.last, !later);
    for (int64_t i = step.queries.begin; i < step.queries.end; ++i) {
      int64_t& done = frontier[{step.op, i}];
      ASSERT_LE(done, step.keys.begin) << "keys ascend for row " << i;
      done = step.keys.end;
    }
  }
}

TEST(Steps, EveryPairOnceWhateverTheSchedule) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Random r(seed);
    const Shape s = RandomShape(&r, 24);
    const Schedule schedule = RandomSchedule(&r, static_cast<int>(r.Int(1, 3)), 13);
    const int depth = static_cast<int>(r.Int(0, 4));
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + Describe(s) + " " + schedule.ToString() + " depth " +
                 std::to_string(depth));
    std::vector<Step> all;
    int64_t covered = 0;
    for (int64_t t = 0; t < NumTiles(schedule, s); ++t) {
      const Range rows = TileQueries(schedule, s, t);
      ASSERT_EQ(rows.begin, covered);
      ASSERT_FALSE(rows.empty());
      covered = rows.end;
      const std::vector<Step> steps = Collect(schedule, s, rows, depth);
      CheckSteps(steps, s, rows);
      if (HasFatalFailure()) return;
      all.insert(all.end(), steps.begin(), steps.end());
    }
    ASSERT_EQ(covered, s.rows());
    ASSERT_TRUE(TileQueries(schedule, s, NumTiles(schedule, s)).empty());
  }
}

// Tiles larger and smaller than what is asked for, and rows that begin anywhere.
TEST(Steps, AnyRangeOfRows) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Random r(seed);
    const Shape s = RandomShape(&r, 24);
    const Schedule schedule = RandomSchedule(&r, 2, 9);
    Range rows{r.Int(0, s.rows() - 1), 0};
    rows.end = r.Int(rows.begin + 1, s.rows());
    SCOPED_TRACE("seed " + std::to_string(seed));
    CheckSteps(Collect(schedule, s, rows, 0), s, rows);
    if (HasFatalFailure()) return;
  }
}

TEST(Steps, KeyBlocksEndAtAbsoluteMultiples) {
  Shape s;
  s.q_len = 100;
  s.kv_len = 100;
  s.qk_dim = s.v_dim = 4;
  s.right = 0;
  s.left = 30;
  const Schedule schedule = *Schedule::Parse("40x16 10x16 2x8");
  for (const Step& step : Collect(schedule, s, {40, 80}, 2)) {
    EXPECT_EQ(step.keys.begin / 16, (step.keys.end - 1) / 16);
    EXPECT_LE(step.queries.size(), 10);
    EXPECT_EQ(step.level, 1);
    EXPECT_EQ(step.op, Op::kFused);
    EXPECT_TRUE(step.keys.begin % 16 == 0 || step.first);
    EXPECT_TRUE(step.keys.end % 16 == 0 || step.last);
  }
}

// A score-resident strip inside a query tile is one fused step for who cuts the walk there, and operations for who does
// not.
TEST(Steps, CutTilesAreFused) {
  Shape s;
  s.q_len = 8;
  s.kv_len = 8;
  s.qk_dim = 3;
  s.v_dim = 5;
  const Schedule schedule = *Schedule::Parse("8x8 score-resident:4x8");
  const std::vector<Step> cut = Collect(schedule, s, {0, 8}, 2);
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_EQ(cut[0].op, Op::kFused);
  const std::vector<Step> whole = Collect(schedule, s, {0, 8}, 0);
  ASSERT_EQ(whole.size(), 6u);
  EXPECT_EQ(whole[0].op, Op::kQK);
  EXPECT_EQ(whole[0].dims, (Range{0, 3}));
  EXPECT_EQ(whole[1].op, Op::kSoftmax);
  EXPECT_EQ(whole[2].op, Op::kPV);
  EXPECT_EQ(whole[2].dims, (Range{0, 5}));
}

TEST(Steps, NothingToDo) {
  const Schedule schedule = *Schedule::Parse("8x8 4x8");
  Shape s;
  EXPECT_EQ(NumTiles(schedule, s), 0);
  EXPECT_TRUE(Collect(schedule, s, {0, 10}, 0).empty());
  s.q_len = 10;  // no keys: rows to write, nothing to compute
  EXPECT_EQ(NumTiles(schedule, s), 2);
  EXPECT_TRUE(Collect(schedule, s, {0, 10}, 0).empty());
  s.kv_len = 10;
  EXPECT_TRUE(Collect(schedule, s, {3, 3}, 0).empty());
  EXPECT_TRUE(Collect(schedule, s, {10, 20}, 0).empty());
  EXPECT_EQ(Collect(schedule, s, {8, INT64_MAX}, 0).size(), 2u);
  EXPECT_TRUE(Collect(Schedule{}, s, {0, 10}, 0).empty());
  Schedule huge = schedule;
  huge.levels[0] = {"L2", Dataflow::kQueryResident, INT64_MAX, INT64_MAX};
  EXPECT_EQ(NumTiles(huge, s), 1);
  EXPECT_FALSE(Collect(huge, s, {0, 10}, 0).empty());
  s.kv_heads = 0;
  EXPECT_EQ(NumTiles(schedule, s), 0);
}

}  // namespace
}  // namespace attenio
