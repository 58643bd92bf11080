#include <gtest/gtest.h>

#include "io/capacity.h"
#include "io/random_io.h"

namespace attenio {
namespace {

Machine Cpu(int64_t l1, int64_t l1_ways, int64_t l2, int64_t l2_ways) {
  Machine m;
  m.name = "test";
  const auto add = [&m](const char* name, int64_t bytes, int64_t ways) {
    MemoryLevel l;
    l.name = name;
    l.bytes = bytes;
    l.ways = ways;
    m.levels.push_back(l);
  };
  add("reg", 2048, 0);
  add("L1", l1, l1_ways);
  add("L2", l2, l2_ways);
  add("memory", 0, 0);
  return m;
}

Shape Square(int64_t n, int64_t d, int64_t bytes) {
  Shape s;
  s.q_len = s.kv_len = n;
  s.qk_dim = s.v_dim = d;
  s.element_bytes = bytes;
  return s;
}

// The paper's largest tiles come out of the general solver (AttenIO, ASPLOS 2026, Sec. 5: 512 KiB of 2-byte words).
TEST(Solve, PaperTiles) {
  SolveOptions options;
  options.packed_bytes = options.out_bytes = 2;
  for (const auto& [d, rows] : {std::pair<int64_t, int64_t>{64, 1985}, {128, 1007}}) {
    const Result<Schedule> s = Solve(Square(rows * 8, d, 2), AttenioMachine(), options);
    ASSERT_TRUE(s.ok()) << s.status().message();
    ASSERT_EQ(s->levels.size(), 1u);
    EXPECT_EQ(s->levels[0], (LevelTile{"cache", Dataflow::kQueryResident, rows, 1}));
    // One row more does not fit: another pass, balanced.
    const Result<Schedule> more = Solve(Square(rows * 8 + 1, d, 2), AttenioMachine(), options);
    EXPECT_EQ(more->levels[0].queries, (rows * 8 + 1 + 8) / 9);
  }
}

// theory: 2 MiB L2, 14 of 16 ways, key blocks of 256, a 16-row strip of scores.
TEST(Solve, CapacityOfAnL2) {
  const int64_t usable = 14 * (2 << 20) / 16;
  for (const auto& [element, d, rows] :
       {std::tuple<int64_t, int64_t, int64_t>{4, 64, 2993}, {4, 128, 1254}, {2, 64, 4304}, {2, 128, 2005}}) {
    const io::Residency r{true, {d, d, element, 4}, 16, 0};
    const Dataflow q = Dataflow::kQueryResident;
    EXPECT_EQ(r.MaxRows(q, usable, 256), rows);
    EXPECT_LE(r.Bytes(q, rows, 256), usable);
    EXPECT_GT(r.Bytes(q, rows + 1, 256), usable);
  }
}

TEST(Solve, TilesFitAndFollowTheQuantum) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random r(seed);
    const Machine m = Cpu(r.Int(1, 96) << 10, r.Int(1, 16), r.Int(64, 4096) << 10, r.Int(1, 20));
    Shape s = Square(r.Int(0, 20000), 0, r.Flip() ? 4 : 2);
    s.kv_len = r.Int(0, 100000);
    s.qk_dim = r.Int(0, 600);
    s.v_dim = r.Int(0, 600);
    s.q_heads = r.Int(1, 8);
    s.right = r.Flip() ? 0 : kUnbounded;
    SolveOptions o;
    o.quantum = {r.Int(1, 32), r.Int(1, 64), r.Int(1, 16)};
    o.threads = r.Int(1, 64);
    o.packed_bytes = s.element_bytes;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + Describe(s));
    const Result<Schedule> solved = Solve(s, m, o);
    ASSERT_TRUE(solved.ok()) << solved.status().message();
    ASSERT_EQ(solved->levels.size(), 3u);
    const LevelTile& l2 = solved->levels[0];
    const LevelTile& l1 = solved->levels[1];
    EXPECT_EQ(l2.queries % o.quantum.rows, 0);
    EXPECT_EQ(l2.keys % o.quantum.keys, 0);
    EXPECT_EQ(l1.queries % o.quantum.rows, 0);
    EXPECT_EQ(l1.keys, l2.keys);
    EXPECT_LE(l1.queries, l2.queries);
    EXPECT_EQ(solved->levels[2].queries, o.quantum.rows);
    const io::Residency fits{true, {s.qk_dim, s.v_dim, s.element_bytes, 4}, l1.queries, s.kv_len};
    const io::Wide bytes = fits.Bytes(l2.dataflow, l2.queries, l2.keys);
    EXPECT_LE(bytes, io::UsableBytes(*m.Find("L2")));
    // Key blocks and so results do not depend on rows, heads or threads.
    Shape other = s;
    other.q_len = 17;
    other.batch = 5;
    other.right = kUnbounded;
    SolveOptions one = o;
    one.threads = 3;
    EXPECT_EQ(Solve(other, m, one)->levels[0].keys, l2.keys);
  }
}

TEST(Solve, MoreTilesWhenThreadsWouldIdle) {
  const Machine m = Cpu(32 << 10, 8, 1 << 20, 8);
  SolveOptions o;
  o.quantum = {14, 32, 16};
  const Shape s = Square(4096, 64, 4);
  const int64_t alone = NumTiles(*Solve(s, m, o), s);
  o.threads = 16;
  const int64_t many = NumTiles(*Solve(s, m, o), s);
  EXPECT_GE(many, 16);
  EXPECT_LT(alone, 8);
  Shape heads = s;
  heads.batch = 64;  // enough tiles as it is
  EXPECT_EQ(NumTiles(*Solve(heads, m, o), heads), alone);
}

TEST(Solve, AbsurdMachinesGiveClearErrors) {
  SolveOptions o;
  o.quantum = {4, 8, 1};
  const Shape s = Square(100, 64, 4);
  EXPECT_FALSE(Solve(s, Machine{}, o).ok());
  const Result<Schedule> one_word = Solve(s, Cpu(4, 1, 4, 1), o);
  ASSERT_FALSE(one_word.ok());
  EXPECT_NE(std::string(one_word.status().message()).find("L2"), std::string::npos);
  Shape negative = s;
  negative.q_len = -1;
  EXPECT_FALSE(Solve(negative, Cpu(32 << 10, 8, 1 << 20, 8), o).ok());
  o.quantum.rows = 0;
  EXPECT_FALSE(Solve(s, Cpu(32 << 10, 8, 1 << 20, 8), o).ok());
}

TEST(Solve, HostileProblemsReturn) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    Random r(seed);
    const HostileProblem p(&r);
    const Result<Schedule> s = Solve(p.shape, p.machine, p.options);
    if (!s.ok()) continue;
    ++solved;
    const LevelTile& l2 = s->levels[0];
    const io::Dims dims{p.shape.qk_dim, p.shape.v_dim, p.options.packed_bytes, p.options.out_bytes};
    const MemoryLevel& level = *p.machine.Find("L2");
    const io::Residency fits{level.ways > 0, dims, p.options.quantum.rows, p.shape.kv_len};
    ASSERT_TRUE(fits.Bytes(l2.dataflow, l2.queries, l2.keys) <= io::UsableBytes(level))
        << "seed " << seed << " " << s->ToString();
    ASSERT_TRUE(Complete(*Schedule::Parse("7x5"), p.shape, p.machine, p.options).ok()) << "seed " << seed;
  }
  EXPECT_GT(solved, 2000);
}

// A row that is wider than the cache still has a schedule: its scores stay instead.
TEST(Solve, HugeDims) {
  SolveOptions o;
  o.quantum = {14, 32, 16};
  const Result<Schedule> s = Solve(Square(4096, 1 << 20, 4), Cpu(32 << 10, 8, 1 << 20, 8), o);
  ASSERT_TRUE(s.ok()) << s.status().message();
  EXPECT_EQ(s->levels[0].dataflow, Dataflow::kScoreResident);
}

TEST(Complete, AddsWhatIsMissing) {
  SolveOptions o;
  o.quantum = {14, 32, 16};
  const Machine m = Cpu(32 << 10, 8, 1 << 20, 8);
  const Shape s = Square(4096, 64, 4);
  const Result<Schedule> given = Complete(*Schedule::Parse("100x4"), s, m, o);
  ASSERT_TRUE(given.ok());
  ASSERT_EQ(given->levels.size(), 3u);
  EXPECT_EQ(given->levels[0].queries, 100);
  EXPECT_EQ(given->levels[1].keys, 4);
  EXPECT_EQ(given->levels[1].queries % 14, 0);
  const Schedule full = *Solve(s, m, o);
  EXPECT_EQ(*Complete(full, s, m, o), full);
  EXPECT_FALSE(Complete(Schedule{}, s, m, o).ok());
}

}  // namespace
}  // namespace attenio
