#include <gtest/gtest.h>

#include "attenio/io.h"

namespace attenio {
namespace {

// n = 16384, d = 128 on a 48 KiB / 2 MiB machine: the solved schedule against the tiles that PyTorch's CPU attention uses
// (256 queries x 512 keys, the scores of the whole tile in a buffer).
TEST(L2Boundary, ThreeTimesFewerBytesThanFixedTiles) {
  Machine m;
  m.levels = {{.name = "L1", .bytes = 48 << 10, .ways = 12}, {.name = "L2", .bytes = 2 << 20, .ways = 16}};
  for (const int64_t bytes : {4, 2}) {
    Shape s;
    s.q_len = s.kv_len = 16384;
    s.qk_dim = s.v_dim = 128;
    s.element_bytes = bytes;
    SolveOptions o;
    o.quantum = {14, 32, 16};
    o.packed_bytes = bytes;
    CacheOptions c;
    c.packed_bytes = bytes;
    const Schedule solved = *Solve(s, m, o);
    const Schedule fixed = *Schedule::Parse("L2:query-resident:256x512 L1:query-resident:256x512");
    const auto ours = SimulateCaches(solved, s, m, c);
    const auto theirs = SimulateCaches(fixed, s, m, c);
    ASSERT_TRUE(ours.ok() && theirs.ok());
    EXPECT_GE((*theirs)[1].total_bytes(), 3 * (*ours)[1].total_bytes()) << solved.ToString();
  }
}

}  // namespace
}  // namespace attenio
