#include <gtest/gtest.h>

#include "attenio/io.h"

namespace attenio {
namespace {

// n = 16384, d = 128: the solved schedule against the tiles that PyTorch's CPU attention uses (256 queries x 512 keys, the scores
// of the whole tile in a buffer), on an L2 of `bytes` and `ways`.
double FixedOverSolved(int64_t element, int64_t bytes, int64_t ways) {
  Machine m;
  m.levels = {{.name = "L1", .bytes = 48 << 10, .ways = 12}, {.name = "L2", .bytes = bytes, .ways = ways}};
  Shape s;
  s.q_len = s.kv_len = 16384;
  s.qk_dim = s.v_dim = 128;
  s.element_bytes = element;
  SolveOptions o;
  o.quantum = {14, 32, 16};
  o.packed_bytes = element;
  CacheOptions c;
  c.packed_bytes = element;
  const auto ours = SimulateCaches(*Solve(s, m, o), s, m, c);
  const auto theirs = SimulateCaches(*Schedule::Parse("L2:query-resident:256x512 L1:query-resident:256x512"), s, m, c);
  return static_cast<double>((*theirs)[1].total_bytes()) / static_cast<double>((*ours)[1].total_bytes());
}

TEST(L2Boundary, ThreeTimesFewerBytesThanFixedTiles) {
  for (const int64_t element : {4, 2}) {
    EXPECT_GE(FixedOverSolved(element, 2 << 20, 16), 3) << element;
    EXPECT_GE(FixedOverSolved(element, 1 << 20, 16), 3) << element;
  }
  EXPECT_GE(FixedOverSolved(4, 1 << 20, 8), 3);
  EXPECT_GE(FixedOverSolved(2, 1 << 20, 8), 2.8);  // docs/io.md says what keeps it below 3
}

}  // namespace
}  // namespace attenio
