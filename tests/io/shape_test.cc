#include <gtest/gtest.h>

#include <algorithm>

#include "io/random_io.h"

namespace attenio {
namespace {

TEST(Shape, KeyRangesAndPairsEqualEnumeration) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random r(seed);
    const Shape s = RandomShape(&r, 40);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + Describe(s));
    Range rows{r.Int(0, s.rows() - 1), 0};
    rows.end = r.Int(rows.begin + 1, s.rows());
    int64_t any_begin = s.kv_len, any_end = 0, pairs = 0;
    Range all{0, 0};
    for (int64_t j = 0; j < s.kv_len; ++j) {
      int64_t count = 0;
      for (int64_t i = rows.begin; i < rows.end; ++i) count += Allowed(s, i, j);
      if (count > 0) {
        any_begin = std::min(any_begin, j);
        any_end = j + 1;
      }
      if (count == rows.size()) {
        if (all.empty()) all.begin = j;
        all.end = j + 1;
      }
      for (int64_t i = 0; i < s.rows(); ++i) pairs += Allowed(s, i, j);
    }
    const Range any = s.AnyKeys(rows);
    if (any_end == 0) {
      EXPECT_EQ(any.begin, any.end);
    } else {
      EXPECT_EQ(any, (Range{any_begin, any_end}));
    }
    if (all.empty()) {
      EXPECT_EQ(s.AllKeys(rows).begin, s.AllKeys(rows).end);
    } else {
      EXPECT_EQ(s.AllKeys(rows), all);
    }
    EXPECT_EQ(s.AllowedPairs(), pairs);
    EXPECT_EQ(s.Flops(), 2.0 * pairs * (s.qk_dim + s.v_dim));
  }
}

TEST(Shape, HoldsAtTheEndsOfTheNumberRange) {
  Shape s;
  s.q_len = s.kv_len = int64_t{1} << 40;
  s.qk_dim = s.v_dim = 128;
  s.right = 0;
  EXPECT_EQ(s.AllowedPairs(), INT64_MAX);  // 2^79 and a bit
  for (const int64_t offset : {INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1}) {
    s.offset = offset;
    s.left = INT64_MAX;
    s.right = INT64_MAX;
    const Range keys = s.AnyKeys({0, s.rows()});
    EXPECT_GE(keys.begin, 0);
    EXPECT_LE(keys.end, s.kv_len);
    s.q_len = 1000;
    EXPECT_GE(s.AllowedPairs(), 0);
  }
}

TEST(Shape, EmptyExtents) {
  Shape s;
  EXPECT_EQ(s.AllowedPairs(), 0);
  EXPECT_EQ(s.Flops(), 0);
  EXPECT_TRUE(s.AnyKeys({0, 5}).empty());
  s.kv_heads = 0;
  s.q_len = 5;
  s.kv_len = 5;
  EXPECT_EQ(s.rows(), 0);
  EXPECT_TRUE(s.AnyKeys({0, 5}).empty());
  EXPECT_TRUE(s.AllKeys({0, 5}).empty());
}

}  // namespace
}  // namespace attenio
