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
  p.machine.levels = {{.name = "reg", .bytes = 2048}, {.name = "L1", .bytes = 32 << 10, .ways = 8}, {.name = "L2", .bytes = 512 << 10, .ways = 8},
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
