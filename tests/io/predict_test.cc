#include <gtest/gtest.h>

#include "io/random_io.h"

namespace attenio {
namespace {

void ExpectEqual(const Traffic& a, const Traffic& b) {
  EXPECT_EQ(a.q, b.q);
  EXPECT_EQ(a.k, b.k);
  EXPECT_EQ(a.v, b.v);
  EXPECT_EQ(a.out, b.out);
  EXPECT_EQ(a.scores, b.scores);
  EXPECT_EQ(a.stats, b.stats);
}

// Every dataflow at every level of every nest, ragged sizes, bands, groups.
TEST(Predict, EqualsTheScratchpadExactly) {
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    Random r(seed);
    const Shape s = RandomShape(&r, 40);
    const int levels = static_cast<int>(r.Int(1, 3));
    const Schedule schedule = RandomSchedule(&r, levels, 20);
    for (int level = 0; level < levels; ++level) {
      for (const RowStats stats : {RowStats::kDropped, RowStats::kWrittenBack}) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + Describe(s) + " " + schedule.ToString() + " level " +
                     std::to_string(level));
        ExpectEqual(Predict(schedule, s, level, stats), SimulateScratchpad(schedule, s, level, stats));
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace attenio
