#include <gtest/gtest.h>

#include "io/random_io.h"

namespace attenio {
namespace {

TEST(Schedule, TextRoundTrips) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Random r(seed);
    Schedule s = RandomSchedule(&r, static_cast<int>(r.Int(1, 3)), r.Flip() ? 100 : INT64_MAX);
    s.levels[0].level = r.Flip() ? "LLC" : "cache-1.x_y";
    const Result<Schedule> parsed = Schedule::Parse(s.ToString());
    ASSERT_TRUE(parsed.ok()) << "seed " << seed << ": " << s.ToString() << ": " << parsed.status().message();
    EXPECT_EQ(*parsed, s) << "seed " << seed;
    EXPECT_EQ(parsed->ToString(), s.ToString());
  }
}

TEST(Schedule, ShortForms) {
  const Result<Schedule> s = Schedule::Parse("  512x128 score-resident:64x128   14x32 pack:block ");
  ASSERT_TRUE(s.ok()) << s.status().message();
  EXPECT_EQ(s->ToString(), "L2:query-resident:512x128 L1:score-resident:64x128 reg:query-resident:14x32 pack:block");
  EXPECT_EQ(Schedule::Parse("1x4")->levels.size(), 1u);
  EXPECT_EQ(Schedule::Parse("LLC:9x8")->levels[0].level, "LLC");
}

TEST(Schedule, ErrorsNameTheWord) {
  for (const char* text : {"512",
                           "x",
                           "512x",
                           "x512",
                           "0x4",
                           "4x0",
                           "-1x4",
                           "+1x4",
                           "4x-4",
                           "4 x 4",
                           "4x4x4",
                           "99999999999999999999x4",
                           "L2:4x4 L2:4x4",
                           "pack:head",
                           "4x4 pack:head pack:head",
                           "4x4 pack:none",
                           "L2:resident:4x4",
                           "L2:query-resident:4x4:",
                           ":4x4",
                           "L2::4x4",
                           "L2:L1:query-resident:4x4",
                           "4x4 4x4 4x4 4x4",
                           "L2:query-resident",
                           "4x4\t5x5",
                           "1L:4x4",
                           "averyverylongname:4x4",
                           "a:1x1 b:1x1 c:1x1 d:1x1 e:1x1 f:1x1 g:1x1 h:1x1 i:1x1"}) {
    const Result<Schedule> s = Schedule::Parse(text);
    ASSERT_FALSE(s.ok()) << text;
    EXPECT_EQ(s.status().code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(s.status().message()).find("schedule: "), std::string::npos);
  }
  EXPECT_FALSE(Schedule::Parse("").ok());
  EXPECT_STREQ(Schedule::Parse("4x4 L1:fast:2x2").status().message(), "schedule: \"L1:fast:2x2\": unknown dataflow");
}

// Arbitrary bytes are refused or parsed, never worse, and what is parsed prints and parses to the same value.
TEST(Schedule, RandomText) {
  const std::string alphabet = "L12x:-.pack headblock queryscor0x9";
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Random r(seed);
    std::string text;
    for (int64_t i = r.Int(0, 24); i > 0; --i) text += alphabet[r.Int(0, static_cast<int64_t>(alphabet.size()) - 1)];
    const Result<Schedule> s = Schedule::Parse(text);
    if (s.ok()) {
      EXPECT_EQ(*Schedule::Parse(s->ToString()), *s) << text;
    }
  }
}

}  // namespace
}  // namespace attenio
