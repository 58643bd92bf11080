#include <gtest/gtest.h>

#include "attenio/io.h"

namespace attenio {
namespace {

TEST(Machine, ThisMachineMakesSense) {
  const Machine& m = ThisMachine();
  EXPECT_EQ(&m, &ThisMachine());
  EXPECT_GE(m.cores, 1);
  ASSERT_NE(m.Find("L1"), nullptr);
  ASSERT_NE(m.Find("L2"), nullptr);
  ASSERT_NE(m.Find("reg"), nullptr);
  EXPECT_EQ(m.levels.front().name, "reg");
  EXPECT_EQ(m.levels.back().name, "memory");
  EXPECT_EQ(m.Find("L5"), nullptr);
  int64_t inside = 0;
  for (const MemoryLevel& l : m.levels) {
    EXPECT_GE(l.sharers, 1);
    if (l.name == "memory") continue;
    EXPECT_GT(l.bytes, inside) << l.name;
    inside = l.bytes;
    if (l.name != "reg") {
      EXPECT_GE(l.ways, 1);
      EXPECT_GE(l.line_bytes, 16);
    }
  }
}

TEST(Machine, PaperMachine) {
  const Machine m = AttenioMachine();
  ASSERT_NE(m.Find("cache"), nullptr);
  EXPECT_EQ(m.Find("cache")->bytes, 524288);
  EXPECT_EQ(m.Find("cache")->ways, 0);
  EXPECT_EQ(m.tensor_flops, 4.096e12);
}

}  // namespace
}  // namespace attenio
