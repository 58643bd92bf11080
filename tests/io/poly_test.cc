#include "attenio/io_poly.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attenio {
namespace {

Shape Square(int64_t n, int64_t d) {
  Shape s;
  s.q_len = s.kv_len = n;
  s.qk_dim = s.v_dim = d;
  return s;
}

double Words(const PolySchedule& p, const Shape& s) { return Predict(p, s).total(); }

TEST(Poly, FeatureCountsArePinned) {
  EXPECT_EQ(FeatureCount(64, 2), 2145);
  EXPECT_EQ(FeatureCount(64, 3), 47905);
  EXPECT_EQ(FeatureCount(32, 4), 58905);
  EXPECT_EQ(FeatureCount(8, 4), 495);
  EXPECT_EQ(FeatureCount(1000000, 12), INT64_MAX);
}

TEST(Poly, CountsOfTheTheory) {
  const int64_t n = 1 << 16, d = 64;
  const Shape s = Square(n, d);
  EXPECT_EQ(Words({PolyRegime::kResident, 2}, s), 4.0 * n * d);
  for (int64_t w : {1, 7, 30}) {
    const double T = std::ceil(65.0 / w);
    EXPECT_EQ(Words({PolyRegime::kColumns, 2, 0, w}, s), 2.0 * n * d * T + 2.0 * n * d + n * T) << w;
  }
  for (const auto& [b, w] : {std::pair{100, 10}, {2145, 65}, {33, 1}}) {
    const double Tb = std::ceil(2145.0 / b), T = std::ceil(65.0 / w);
    EXPECT_EQ(Words({PolyRegime::kBlocks, 2, b, w}, s), 2 * Tb * T * n * d + Tb * n * d + (2 * Tb - 1) * n * (d + 1))
        << b << " " << w;
  }
  for (const auto& [c, w] : {std::pair{16, 8}, {8, 65}, {20, 3}}) {  // at most C T n (2 g s + 3 w)
    const double blocks = std::ceil(64.0 / c), tiles = blocks * (blocks + 1) / 2, T = std::ceil(65.0 / w);
    const double words = Words({PolyRegime::kTensor, 2, 0, w, c}, s);
    EXPECT_LE(words, tiles * T * n * (2 * 2 * c + 3 * w)) << c << " " << w;
    EXPECT_GE(words, 0.6 * tiles * T * n * (2 * 2 * c + 3 * w)) << c << " " << w;
  }
}

TEST(Poly, SolverMatchesItsRegimesAndApproximations) {
  const int64_t n = 1 << 16, d = 64, r = 2145;
  const Shape s = Square(n, d);
  // R from r (d + 1) + 2 d + g + 2 words on.
  const double fits = static_cast<double>(r * (d + 1) + 2 * d + 2 + 2);
  EXPECT_EQ(SolvePoly(s, 2, fits)->regime, PolyRegime::kResident);
  EXPECT_NE(SolvePoly(s, 2, fits - 1)->regime, PolyRegime::kResident);
  // B2 moves about 2 n r d^2 / M + 2 n d.
  const double M = 65536;
  const PolySchedule b2 = *SolvePoly(s, 2, M, PolyRegime::kColumns);
  EXPECT_EQ(b2.columns, static_cast<int64_t>((M - d - 2 - 2) / (r + 1)) == 30
                            ? 22
                            : b2.columns);  // 3 blocks: 22 each is as good as 30
  EXPECT_NEAR(Words(b2, s) / (2.0 * n * r * d * d / M + 2.0 * n * d), 1, 0.35);
  // TT beats B2 for d = 64, g = 2 below about 6.5 K words.
  const auto tensor_wins = [&](double m) {
    return Words(*SolvePoly(s, 2, m, PolyRegime::kTensor), s) < Words(*SolvePoly(s, 2, m, PolyRegime::kColumns), s);
  };
  EXPECT_TRUE(tensor_wins(4500));
  EXPECT_FALSE(tensor_wins(8000));
}

TEST(Poly, SolverIsBestOfBruteForce) {
  const Shape s = Square(500, 7);
  const int64_t r = FeatureCount(7, 2);
  for (double words : {60.0, 90.0, 130.0, 200.0, 400.0}) {
    double best = INFINITY;
    const auto consider = [&](const PolySchedule& p) {
      if (PolyCapacity(p, s) <= words) best = std::min(best, Words(p, s));
    };
    consider({PolyRegime::kResident, 2});
    for (int64_t w = 1; w <= 8; ++w) {
      consider({PolyRegime::kColumns, 2, 0, w});
      for (int64_t b = 1; b <= r; ++b) consider({PolyRegime::kBlocks, 2, b, w});
      for (int64_t c = 1; c <= 7; ++c) consider({PolyRegime::kTensor, 2, 0, w, c});
    }
    const Result<PolySchedule> p = SolvePoly(s, 2, words);
    ASSERT_TRUE(p.ok());
    EXPECT_EQ(Words(*p, s), best) << words << " " << p->ToString();
  }
  EXPECT_FALSE(SolvePoly(s, 2, 3).ok());
}

// Dims up to the largest return at once: a search over every block size would not.
TEST(Poly, HugeDims) {
  for (const int64_t d : {int64_t{1} << 20, int64_t{1} << 40}) {
    for (const int degree : {1, 2, 3}) {
      const Shape s = Square(1000, d);
      for (const double words : {1e3, 1e9, 1e15}) {
        const Result<PolySchedule> p = SolvePoly(s, degree, words);
        if (p.ok()) {
          EXPECT_LE(PolyCapacity(*p, s), words) << p->ToString();
        }
      }
    }
  }
}

TEST(Poly, SimulationEqualsPrediction) {
  for (const Shape& s : {Square(300, 12), Square(77, 5)}) {
    for (double words : {80.0, 200.0, 700.0, 5000.0}) {
      for (int degree : {1, 2, 3}) {
        for (const PolyRegime regime :
             {PolyRegime::kResident, PolyRegime::kColumns, PolyRegime::kBlocks, PolyRegime::kTensor}) {
          const Result<PolySchedule> p = SolvePoly(s, degree, words, regime);
          if (!p.ok()) continue;
          const Result<Traffic> t = SimulateScratchpad(*p, s, words);
          ASSERT_TRUE(t.ok()) << t.status().message();
          EXPECT_EQ(*t, Predict(*p, s)) << p->ToString() << " words " << words;
          EXPECT_FALSE(SimulateScratchpad(*p, s, PolyCapacity(*p, s) - 1).ok());
        }
      }
    }
  }
}

TEST(Poly, EveryMonomialTileOnce) {
  const Shape s = Square(10, 10);
  const PolySchedule p{PolyRegime::kTensor, 3, 0, 4, 3};  // 4 blocks, C(6, 3) = 20 tiles of 3 column blocks
  int states = 0, applies = 0;
  ForEachStep(p, s, [&](const Step& step) {
    states += step.op == Op::kState;
    applies += step.op == Op::kApply;
    EXPECT_LE(TensorTile(p, s, step.features.begin).size(), 3u);
  });
  EXPECT_EQ(states, 60);
  EXPECT_EQ(applies, 60);
  int64_t width = 0;
  for (int64_t t = 0; t < 20; ++t) {
    for (const Range& range : TensorTile(p, s, t)) width += range.size();
  }
  EXPECT_EQ(width, (20 - 10) * 10);  // every coordinate in C(6,3) - C(5,3) tiles
}

TEST(Poly, BoundsAndBreakEvens) {
  const Shape s = Square(1 << 16, 64);
  for (double words : {1024.0, 4096.0, 65536.0, 262144.0, 1048576.0}) {
    const double best = Words(*SolvePoly(s, 2, words), s);
    for (const PolyBoundKind kind : {PolyBoundKind::kCompulsory, PolyBoundKind::kMonomials}) {
      EXPECT_GE(best, PolyLowerBound(s, 2, words, kind)) << words << " " << Name(kind);
    }
    const double b2 = SolvePoly(s, 2, words, PolyRegime::kColumns).ok()
                          ? Words(*SolvePoly(s, 2, words, PolyRegime::kColumns), s)
                          : INFINITY;
    EXPECT_GE(b2, PolyLowerBound(s, 2, words, PolyBoundKind::kDense)) << words;
  }
  EXPECT_EQ(std::floor(FlopBreakEven(64, 64, 2, false)), 2178);
  EXPECT_EQ(std::floor(FlopBreakEven(32, 32, 3, false)), 6749);
  EXPECT_EQ(std::floor(FlopBreakEven(32, 32, 2, false)), 578);
  EXPECT_EQ(std::floor(FlopBreakEven(16, 16, 2, false)), 162);
  EXPECT_EQ(FlopBreakEven(16, 16, 2, true), 2 * FlopBreakEven(16, 16, 2, false));
}

// The loops that run on the CPU, through an L2 that holds the state: 4 n d words and the state, within 5 %.
TEST(Poly, CacheSimulationMovesTheCompulsoryWords) {
  const int64_t n = 32768, d = 32;
  Machine machine;
  MemoryLevel l1, l2, memory;
  l1.name = "L1";
  l1.bytes = 32768;
  l1.ways = 8;
  l2.name = "L2";
  l2.bytes = 1 << 20;
  l2.ways = 8;
  memory.name = "memory";
  machine.levels = {l1, l2, memory};
  const auto traffic = SimulateCaches({PolyRegime::kResident, 2}, Square(n, d), machine, {});
  ASSERT_TRUE(traffic.ok());
  int64_t bytes = 0;
  for (const LineTraffic& t : *traffic) {
    if (t.level == "L2") bytes = t.total_bytes();
  }
  // Stores of O fetch their lines first: 5 n d words; without that 4 n d.
  const int64_t fetched_out = (*traffic)[1].fills[static_cast<int>(Operand::kOut)] * 64;
  EXPECT_NEAR(static_cast<double>(bytes - fetched_out), 4.0 * n * d * 4, 0.05 * 4 * n * d * 4);
}

}  // namespace
}  // namespace attenio
