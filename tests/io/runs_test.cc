#include "io/runs.h"

#include <gtest/gtest.h>

#include "io/random_io.h"

namespace attenio {
namespace {

using io::FloorSum;
using io::TileRun;
using io::Wide;

TEST(FloorSum, EqualsTheSum) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random r(seed);
    const int64_t n = r.Int(0, 60), a = r.Int(0, 50), b = r.Int(0, 50), m = r.Int(1, 40);
    int64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += (a * i + b) / m;
    ASSERT_EQ(static_cast<int64_t>(FloorSum(n, a, b, m)), sum) << n << " " << a << " " << b << " " << m;
  }
  const Wide n = Wide{1} << 62;  // i / 2, rounded down, over 2^62 of them
  EXPECT_TRUE(FloorSum(n, 1, 0, 2) == (n / 2) * (n / 2 - 1));
}

// The tiles that ForEachStep walks, in another order.
TEST(ForEachRun, CoversEveryTileOnce) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Random r(seed);
    Shape s = RandomShape(&r, 60);
    s.right = 0;  // a band: where tiles begin matters
    const Schedule schedule = RandomSchedule(&r, 3, 20);
    std::vector<std::pair<int64_t, int64_t>> tiles, expected;
    io::ForEachRun(schedule, s, 0, 3, TileRun{0, s.rows(), 0, 1}, [&](const TileRun& run) {
      for (int64_t i = 0; i < run.count; ++i) tiles.push_back({run.begin + i * run.stride, run.size});
    });
    const auto cut = [&](auto&& self, int level, Range rows) -> void {
      if (level == 3) return expected.push_back({rows.begin, rows.size()});
      for (Range t = io::TileAt(rows.begin, rows.end, io::RowsOf(schedule, level)); !t.empty();
           t = io::TileAt(t.end, rows.end, io::RowsOf(schedule, level))) {
        self(self, level + 1, t);
      }
    };
    cut(cut, 0, {0, s.rows()});
    std::sort(tiles.begin(), tiles.end());
    ASSERT_EQ(tiles, expected) << "seed " << seed << ": " << Describe(s) << " " << schedule.ToString();
  }
}

// One level is at most two runs, whatever the number of its tiles: what keeps Predict and so SolveLevel short.
TEST(ForEachRun, OneLevelIsTwoRuns) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Random r(seed);
    const HostileProblem p(&r);
    Schedule schedule;
    schedule.levels = {{"L2", Dataflow::kQueryResident, r.Scale(62), r.Scale(62)}};
    int runs = 0;
    io::ForEachRun(schedule, p.shape, 0, 1, TileRun{0, p.shape.rows(), 0, 1}, [&](const TileRun&) { ++runs; });
    EXPECT_LE(runs, 2) << "seed " << seed;
    const Traffic t = Predict(schedule, p.shape, 0, RowStats::kDropped);
    EXPECT_GE(t.total(), 0) << "seed " << seed;
    EXPECT_LE(t.k, static_cast<double>(p.shape.rows()) * p.shape.kv_len * static_cast<double>(p.shape.qk_dim))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace attenio
