#include "io/cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "io/capacity.h"

namespace attenio {
namespace {

using namespace io;

constexpr int64_t kPaperWords = 512 * 1024 / 2;

Shape Square(int64_t n, int64_t d) {
  Shape s;
  s.q_len = s.kv_len = n;
  s.qk_dim = s.v_dim = d;
  s.element_bytes = 2;
  return s;
}

double Words(const LevelTile& tile, const Shape& s) {
  Schedule schedule;
  schedule.levels = {tile};
  return Predict(schedule, s, 0, RowStats::kDropped).total();
}

LevelTile Solved(const Shape& s, int64_t words, Dataflow d) {
  MemoryLevel level;
  level.name = "pad";
  level.bytes = words;
  SolveOptions o;
  o.packed_bytes = o.out_bytes = 1;
  const Result<LevelTile> t = SolveLevel(s, level, o, d);
  EXPECT_TRUE(t.ok()) << t.status().message();
  return *t;
}

// Published ratios (AttenIO, Sec. 6.2.1 and Fig. 11) within 0.5 %.
TEST(Cost, PublishedRatios) {
  std::vector<int64_t> lengths;
  for (int64_t n = 8192; n <= 131072; n *= 2) lengths.push_back(n);
  const auto mean_ratio = [&](double (*words)(int64_t, int64_t, int64_t), int64_t d) {
    double log_sum = 0;
    for (const int64_t n : lengths) log_sum += std::log(words(n, d, kPaperWords) / AttenioWords(n, d, kPaperWords));
    return std::exp(log_sum / static_cast<double>(lengths.size()));
  };
  EXPECT_NEAR(mean_ratio(FlatWords, 64), 273.7, 0.005 * 273.7);
  EXPECT_NEAR(mean_ratio(StandardWords, 64), 57.0, 0.005 * 57.0);
  EXPECT_NEAR(mean_ratio(Flash2Words, 64), 26.8, 0.005 * 26.8);
  EXPECT_NEAR(mean_ratio(FlatWords, 128), 148.8, 0.005 * 148.8);
  EXPECT_NEAR(mean_ratio(StandardWords, 128), 16.4, 0.005 * 16.4);
  EXPECT_NEAR(mean_ratio(Flash2Words, 128), 7.3, 0.005 * 7.3);
  const auto flat_over_standard = [](int64_t n, int64_t d) {
    return FlatWords(n, d, kPaperWords) / StandardWords(n, d, kPaperWords);
  };
  EXPECT_NEAR(flat_over_standard(65536, 64), 10.05, 0.05);
  EXPECT_NEAR(flat_over_standard(131072, 64), 30.12, 0.15);
  EXPECT_NEAR(flat_over_standard(65536, 128), 18.96, 0.09);
  EXPECT_NEAR(flat_over_standard(131072, 128), 56.88, 0.28);
}

// The paper's formulas are the general count at the paper's tiles.
TEST(Cost, FormulasAreTheGeneralCount) {
  for (const int64_t d : {64, 128}) {
    EXPECT_EQ(AttenioRows(kPaperWords, d), d == 64 ? 1985 : 1007);
    const Residency paper{false, {d, d, 2, 2}, 0, 0};
    EXPECT_EQ(paper.MaxRows(Dataflow::kQueryResident, 512 * 1024, 1), AttenioRows(kPaperWords, d));
    for (int64_t n = 8192; n <= 131072; n *= 2) {
      const Shape s = Square(n, d);
      EXPECT_EQ(Words({"c", Dataflow::kQueryResident, AttenioRows(kPaperWords, d), 1}, s),
                AttenioWords(n, d, kPaperWords));
      EXPECT_EQ(Words(Flash2Tile(kPaperWords, d), s), Flash2Words(n, d, kPaperWords));
    }
  }
  EXPECT_EQ(Flash2Tile(kPaperWords, 64), (LevelTile{"cache", Dataflow::kQueryResident, 64, 1024}));
  // FlashAttention-2 with M / 4d queries would be 1.86 times AttenIO only.
  EXPECT_NEAR(Words({"c", Dataflow::kQueryResident, kPaperWords / 256, 1}, Square(65536, 64)) /
                  AttenioWords(65536, 64, kPaperWords),
              1.86, 0.005);
}

TEST(Cost, TallSkinnyBeatsSquareTilesAboveHalfD) {
  const int64_t n = 1 << 20, d = 128;
  EXPECT_LT(TallSkinnyWords(n, d, d * d / 2), SquareTileWords(n, d, d * d / 2));
  EXPECT_GT(TallSkinnyWords(n, d, d * d / 5), SquareTileWords(n, d, d * d / 5));
  EXPECT_DOUBLE_EQ(TallSkinnyWords(100, 4, 84), 400 + 10000.0 * 20 / 80 + 10000);
  EXPECT_DOUBLE_EQ(SquareTileWords(100, 4, 64), 2 * 40000.0 / 8 + 10000);
}

// Leading constants c in c n m d^2 / S (theory 2.2).
TEST(Cost, LeadingConstants) {
  const int64_t d = 64, s = 64 * d * d;
  const Shape big = Square(1 << 22, d);
  const double unit = std::pow(2.0, 44) * d * d / static_cast<double>(s);
  EXPECT_NEAR(Words(Solved(big, s, Dataflow::kQueryResident), big) / unit, 4, 0.2);
  EXPECT_NEAR(Words(Solved(big, s, Dataflow::kKeyResident), big) / unit, 6, 0.3);
  const Shape shape = Square(1 << 16, d);
  const double u = std::pow(2.0, 32) * d * d / static_cast<double>(s);
  EXPECT_NEAR(Words({"c", Dataflow::kKeyResident, 64, s / (4 * d)}, shape) / u, 12.31, 0.01);
  EXPECT_NEAR(Words({"c", Dataflow::kQueryResident, s / (4 * d), 1}, shape) / u, 8.12, 0.01);
  EXPECT_NEAR(Words({"c", Dataflow::kQueryResident, d, 1}, shape) / u, 128.1, 0.1);
  // Score-resident: 2 sqrt(6) n m d / sqrt(S) = 4.90, approached from above (5.08 at 4096 words).
  const Shape wide = Square(1 << 16, 128);
  const double split = std::pow(2.0, 32) * 128 / 64;
  EXPECT_NEAR(Words(Solved(wide, 4096, Dataflow::kScoreResident), wide) / split, 5.076, 0.02);
  EXPECT_NEAR(ScoreResidentLeadingWords(1 << 16, 1 << 16, 128, 4096) / split, 4.899, 0.001);
  EXPECT_NEAR(UnfusedLeadingWords(1 << 16, 1 << 16, 128, 4096) / (std::pow(2.0, 32)), 4.0 * 128 / 64 + 1, 1e-9);
  EXPECT_NEAR(UnfusedLeadingWords(1 << 16, 1 << 16, 64, 1 << 20),
              2 * std::pow(2.0, 32) + std::pow(2.0, 23) * (1 + std::ceil(65536.0 / AttenioRows(1 << 20, 64))), 1);
}

TEST(Cost, CausalAndGroups) {
  Shape s = Square(4096, 64);
  const LevelTile tile{"c", Dataflow::kQueryResident, 64, 64};
  const double rows = 2.0 * 4096 * 64, dense = Words(tile, s) - rows;
  s.right = 0;
  EXPECT_DOUBLE_EQ((Words(tile, s) - rows) / dense, 65.0 / 128.0);  // (T + 1) / 2 T
  // Decode: the 8 heads of a group are rows on the same K and V.
  Shape decode = Square(4096, 64);
  decode.q_len = 1;
  decode.q_heads = 8;
  EXPECT_EQ(Words({"c", Dataflow::kQueryResident, 64, 1}, decode), 525312);
  decode.q_heads = 1;
  EXPECT_EQ(8 * Words({"c", Dataflow::kQueryResident, 64, 1}, decode), 4195328);
  EXPECT_EQ(FlatSpilledWords(1024, 64, 256), 4.0 * 1024 * 1024 + 2 * 1024 * 64 * 5);
}

// Inner boundary of a nest (theory 3; values of the word-level simulation there).
TEST(Cost, NestedBoundary) {
  for (const auto& [block, rows, words] :
       {std::tuple<int64_t, int64_t, double>{8, 50, 33216}, {12, 45, 27072}, {16, 40, 24000}, {24, 25, 20928}}) {
    EXPECT_EQ(NestedWords(96, 96, 4, 5, block), words);
    Schedule s;
    s.levels = {{"L2", Dataflow::kQueryResident, rows, block}, {"L1", Dataflow::kQueryResident, 5, block}};
    const Shape shape = Square(96, 4);
    // 96 = 50 + 46 cuts into one strip more than 96 alone: compare where the strips are as many.
    if (rows % 5 == 0) {
      const double strips = std::ceil(rows / 5.0) * std::floor(96.0 / rows) + std::ceil(std::fmod(96.0, rows) / 5);
      EXPECT_EQ(Predict(s, shape, 1, RowStats::kWrittenBack).total(), words + (strips - 20) * 2 * 96 * 4);
    }
  }
  EXPECT_NEAR(BestUpperBlock(1 << 18, 64, 1, 6, Replacement::kExplicit), 2048 / 3.0, 1e-9);
  EXPECT_NEAR(BestUpperBlock(1 << 18, 64, 1, 3, Replacement::kLru), 512, 1e-9);
  EXPECT_EQ(SharedSweepWords(4096, 4096, 64, 512, 4), 2.0 * 4096 * 64 * (1 + 2));
}

// A closed form is a minimum: neighbours of C* cost more at both boundaries together.
TEST(Cost, BestUpperBlockIsTheMinimum) {
  for (const double ratio : {0.5, 1.0, 4.0, 16.0}) {
    const double S = 1 << 20, d = 128;
    // Per pair: outer 2 d / Br with Br (2 d) + blocks (2 d C) = S, inner 3 d / C.
    const auto cost = [&](double c, double blocks) {
      return ratio * 2 * d / ((S - blocks * 2 * d * c) / (2 * d)) + 3 * d / c;
    };
    const double explicit_block = BestUpperBlock(S, d, 1, ratio, Replacement::kExplicit);
    const double lru_block = BestUpperBlock(S, d, 1, ratio, Replacement::kLru);
    for (const double f : {0.8, 0.95, 1.05, 1.2}) {
      EXPECT_GT(cost(lru_block * f, 2), cost(lru_block, 2)) << ratio;
      EXPECT_GT(cost(explicit_block * f, 1), cost(explicit_block, 1)) << ratio;
    }
  }
}

// Lower bounds (theory 2.3): the constants, and the gap of the best schedule.
TEST(Bound, Values) {
  const Shape s = Square(65536, 64);
  const double S = 64 * 64 * 64, pairs = 65536.0 * 65536.0;
  EXPECT_DOUBLE_EQ(LowerBound(s, S, BoundKind::kCompulsory), 4.0 * 65536 * 64);
  EXPECT_DOUBLE_EQ(LowerBound(s, S, BoundKind::kScoreOnce), 2 * pairs * 4096 / (S + 8192) - S);
  EXPECT_DOUBLE_EQ(LowerBound(s, S, BoundKind::kPairsResident), 4 * pairs * 4096 / S - S - 65536 * 64);
  EXPECT_DOUBLE_EQ(LowerBound(s, S, BoundKind::kOrder), pairs * 4096 / S);
  EXPECT_DOUBLE_EQ(LowerBound(s, 1024, BoundKind::kOrder), pairs * 64 / 32);
  const LevelTile best = Solved(s, 262144, Dataflow::kQueryResident);
  EXPECT_NEAR(Words(best, s) / LowerBound(s, S, BoundKind::kScoreOnce), 2.26, 0.01);
  EXPECT_LT(Words(best, s) / LowerBound(s, S, BoundKind::kPairsResident), 1.12);
  Shape band = s;
  band.right = 0;
  band.left = 0;
  band.offset = 65535;  // the first query alone has a key
  EXPECT_DOUBLE_EQ(LowerBound(band, S, BoundKind::kCompulsory), 2 * 128);
}

}  // namespace
}  // namespace attenio
