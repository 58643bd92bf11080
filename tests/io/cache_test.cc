#include "io/cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>

#include "io/random_io.h"

namespace attenio {
namespace {

// Against lists that say what LRU means.
TEST(Cache, IsLeastRecentlyUsedPerSet) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random r(seed);
    const int64_t sets = r.Int(1, 5), ways = r.Int(1, 6);
    io::Cache cache(sets * ways * 64, ways, 64);
    std::map<int64_t, std::list<std::pair<uint64_t, bool>>> model;
    for (int i = 0; i < 2000; ++i) {
      const auto line = static_cast<uint64_t>(r.Int(1, 40));
      const bool write = r.Flip();
      auto& set = model[static_cast<int64_t>(line) % sets];
      const auto it = std::find_if(set.begin(), set.end(), [line](const auto& x) { return x.first == line; });
      const bool hit = it != set.end();
      bool dirty = write;
      uint64_t evicted = 0;
      if (hit) {
        dirty |= it->second;
        set.erase(it);
      } else if (static_cast<int64_t>(set.size()) == ways) {
        if (set.back().second) evicted = set.back().first;
        set.pop_back();
      }
      set.push_front({line, dirty});
      const io::Cache::Result result = cache.Access(line, write);
      ASSERT_EQ(result.hit, hit) << "seed " << seed << " access " << i;
      ASSERT_EQ(result.evicted, evicted) << "seed " << seed << " access " << i;
    }
  }
}

Machine TwoLevels(int64_t l1, int64_t l2, int64_t ways) {
  Machine m;
  m.levels = {{.name = "L1", .bytes = l1, .ways = 8}, {.name = "L2", .bytes = l2, .ways = ways}};
  return m;
}

TEST(Cache, StackCountsLinesPerOperand) {
  io::CacheStack stack(TwoLevels(1024, 4096, 8));
  const int64_t q = stack.Allocate(640, Operand::kQ);
  const int64_t out = stack.Allocate(8192, Operand::kOut);
  stack.Touch(q, 640, false);
  stack.Touch(q + 10, 1, false);
  EXPECT_EQ(stack.traffic()[0].fills[0], 10);
  EXPECT_EQ(stack.traffic()[1].fills[0], 10);
  stack.Touch(out, 8192, true);  // twice the L2: the first half has left it
  const LineTraffic& l2 = stack.traffic()[1];
  EXPECT_EQ(l2.fills[static_cast<int>(Operand::kOut)], 128);
  EXPECT_EQ(l2.writebacks[static_cast<int>(Operand::kOut)], 64);
  EXPECT_EQ(l2.writebacks[0], 0);
  EXPECT_EQ(l2.total_bytes(), 64 * (128 + 10 + 64));
}

Shape Square(int64_t n, int64_t d, int64_t bytes) {
  Shape s;
  s.q_len = s.kv_len = n;
  s.qk_dim = s.v_dim = d;
  s.element_bytes = bytes;
  return s;
}

// The solver's tiles hold under LRU: what crosses the L2 boundary is the closed form with K and V packed ahead, plus the worker's
// buffers of Q and O, which are fetched again for every tile at most; within 2 %.
TEST(SimulateCaches, SolvedTilesMoveWhatIsPredicted) {
  for (const int64_t bytes : {4, 2}) {
    const Machine m = TwoLevels(32 << 10, 512 << 10, 8);
    const Shape s = Square(2048, 128, bytes);
    SolveOptions o;
    o.quantum = {6, 16, 8};
    o.packed_bytes = bytes;
    const Result<Schedule> schedule = Solve(s, m, o);
    ASSERT_TRUE(schedule.ok()) << schedule.status().message();
    ASSERT_GE(NumTiles(*schedule, s), 4);
    CacheOptions c;
    c.packed_bytes = bytes;
    const auto lines = SimulateCaches(*schedule, s, m, c);
    ASSERT_TRUE(lines.ok());
    const LineTraffic& l2 = (*lines)[1];
    const Traffic words = Predict(*schedule, s, 0, RowStats::kDropped);
    const double n = 2048.0 * 128;
    const double least =
        (words.q + n + words.k + words.v + 4 * n) * bytes;  // source Q, target O, K/V streamed and packed
    const double most = least + n * bytes + n * 4;
    EXPECT_GE(64.0 * l2.total_fills(), 0.98 * least) << schedule->ToString();
    EXPECT_LE(64.0 * l2.total_fills(), 1.02 * most) << schedule->ToString();
    // A tile that is half as large again saves a third of the K/V traffic on paper and loses it all under LRU.
    Schedule greedy = *schedule;
    greedy.levels[0].queries = greedy.levels[0].queries * 3 / 2;
    const auto worse = SimulateCaches(greedy, s, m, c);
    EXPECT_GT((*worse)[1].total_fills(), 13 * l2.total_fills() / 10) << greedy.ToString();
  }
}

TEST(SimulateCaches, EveryDataflowRuns) {
  const Machine m = TwoLevels(4 << 10, 32 << 10, 8);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random r(seed);
    const Shape s = RandomShape(&r, 60);
    const Schedule schedule = RandomSchedule(&r, static_cast<int>(r.Int(1, 3)), 30);
    CacheOptions c;
    c.depth = static_cast<int>(r.Int(0, 3));
    c.kv_heads = r.Int(1, 2);
    const auto lines = SimulateCaches(schedule, s, m, c);
    ASSERT_TRUE(lines.ok());
    EXPECT_LE((*lines)[1].total_fills(), (*lines)[0].total_fills());
    EXPECT_GT((*lines)[1].total_fills(), 0);
  }
  EXPECT_FALSE(SimulateCaches(*Schedule::Parse("4x4"), Square(8, 4, 4), AttenioMachine(), {}).ok());
  EXPECT_FALSE(SimulateCaches(Schedule{}, Square(8, 4, 4), m, {}).ok());
}

}  // namespace
}  // namespace attenio
