#include "cli/io_report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cli/error.h"

namespace attenio::cli {
namespace {

IoProblem Problem(int64_t n, int64_t d) {
  IoProblem p;
  p.shape.q_len = p.shape.kv_len = n;
  p.shape.qk_dim = p.shape.v_dim = d;
  p.shape.q_heads = p.shape.kv_heads = 2;
  p.machine.name = "test";
  p.machine.levels = {{.name = "reg", .bytes = 2048},
                      {.name = "L1", .bytes = 32 << 10, .ways = 8},
                      {.name = "L2", .bytes = 512 << 10, .ways = 8},
                      {.name = "memory"}};
  p.options.quantum = {6, 16, 8};
  return p;
}

TEST(IoReport, ScheduleRowsStandAboveTheirBounds) {
  const IoProblem p = Problem(1024, 128);
  const Schedule s = *Solve(p.shape, p.machine, p.options);
  const std::vector<IoRow> rows = ScheduleRows(s, p, 1, 1);
  ASSERT_EQ(rows.size(), 3u);
  for (const IoRow& row : rows) {
    ASSERT_TRUE(row.simulated.has_value());
    EXPECT_GE(row.predicted, row.bound);
    EXPECT_GE(*row.simulated, row.bound);
  }
  EXPECT_NEAR(*rows[0].simulated, rows[0].predicted, 0.15 * rows[0].predicted);  // few tiles: buffers stay in cache
  EXPECT_EQ(*rows[2].simulated, rows[2].predicted);                              // registers are explicit: exact
  EXPECT_LT(PredictedCacheFills(s, p), PredictedCacheBytes(s, p));
}

// Threads that share the last level sweep K and V in step: what they fetch is a sweep for each round of tiles, not for each tile,
// where K and V do not fit, and everything once where they do.
TEST(IoReport, ThreadsSweepASharedLevelTogether) {
  IoProblem p = Problem(4096, 64);
  p.shape.q_heads = p.shape.kv_heads = 1;
  p.machine.levels[2].bytes = 128 << 10;
  for (const int64_t llc : {1 << 20, 32 << 20}) {  // a thread's share is a quarter; K and V packed take 2 MiB
    p.machine.levels[3] = {.name = "LLC", .bytes = llc, .ways = 16, .sharers = 4};
    double alone = 0;
    for (const int64_t threads : {1, 2, 4}) {
      p.options.threads = 1;
      const Schedule s = *Solve(p.shape, p.machine, p.options);  // the same tiles for all
      p.options.threads = threads;
      const IoRow row = ScheduleRows(s, p, 0, 1).front();
      ASSERT_EQ(row.level, "LLC");
      const std::string which =
          std::to_string(llc) + " bytes, " + std::to_string(threads) + " threads, " + s.ToString();
      EXPECT_NEAR(*row.simulated, row.predicted, 0.15 * row.predicted) << which;  // what is dirty at the end stays
      if (threads == 1) alone = *row.simulated;
      if (threads == 4 && llc == 1 << 20) {
        EXPECT_LT(*row.simulated, 0.45 * alone) << which;
      }
    }
  }
}

TEST(IoReport, DataflowRows) {
  const IoProblem p = Problem(512, 64);
  const std::vector<IoRow> rows = DataflowRows({"all"}, *p.machine.Find("L2"), p, true);
  ASSERT_EQ(rows.size(), 7u);
  for (const IoRow& row : rows) {
    EXPECT_EQ(row.predicted, *row.simulated) << row.dataflow;
    EXPECT_GE(row.predicted, row.bound) << row.dataflow;
    EXPECT_LE(rows[0].predicted, row.predicted) << row.dataflow;  // query-resident is best here
  }
  EXPECT_EQ(DataflowRows({"unfused", "flash-attention-2"}, *p.machine.Find("L2"), p, false).size(), 2u);
  EXPECT_THROW(DataflowRows({"flash"}, *p.machine.Find("L2"), p, false), InputError);
}

}  // namespace
}  // namespace attenio::cli
