// Block-wise approximation of keys in groups.
#include <gtest/gtest.h>

#include <cmath>

#include "approx/approx_problem.h"

namespace attenio {
namespace {

using testing::ApproxCheck;
using testing::CheckRows;
using testing::Direction;
using testing::FillScores;
using testing::Keys;
using testing::Problem;
using testing::RunApprox;

ApproxOptions Groups(double max_error) {
  ApproxOptions o;
  o.method = ApproxMethod::kGroups;
  o.mode = ApproxMode::kPolynomial;
  o.max_error = max_error;
  o.workers = 4;
  return o;
}

AttentionDesc Desc(int64_t n, int64_t m, int64_t d) {
  AttentionDesc desc;
  desc.q_len = n;
  desc.kv_len = m;
  desc.qk_dim = desc.v_dim = d;
  return desc;
}

// Keys in 64 clusters whose scores spread by at most `spread`, cluster scores with deviation `between`.
void FillClusters(Problem& p, double spread, double between, uint64_t seed) {
  testing::Random random(seed);
  const int64_t d = p.desc.qk_dim;
  std::vector<std::vector<double>> centres;
  for (int i = 0; i < 64; ++i) centres.push_back(Direction(random, d));
  const double scale = 1 / std::sqrt(static_cast<double>(d)), length = between * std::sqrt(static_cast<double>(d));
  for (int64_t i = 0; i < p.desc.q_len; ++i) {
    const std::vector<double> x = Direction(random, d);
    for (int64_t c = 0; c < d; ++c) p.q.Set(p.QIndex(0, 0, i, c), x[c] / scale);
  }
  for (int64_t j = 0; j < p.desc.kv_len; ++j) {
    const std::vector<double> x = Direction(random, d);
    for (int64_t c = 0; c < d; ++c) p.k.Set(p.KIndex(0, 0, j, c), length * centres[j % 64][c] + spread / 2 * x[c]);
  }
}

TEST(Groups, EveryDistributionStaysWithinItsCertificate) {
  int64_t skipped = 0, poly = 0, exact = 0;
  for (int i = 0; i < 60; ++i) {
    const uint64_t seed = 500 + i;
    testing::Random random(seed);
    AttentionDesc desc = Desc(random.Integer(1, 300), random.Integer(1, 5000), random.Integer(0, 1) == 0 ? 16 : 40);
    desc.v_dim = random.Integer(1, 40);
    desc.kv_heads = random.Integer(1, 2);
    desc.q_heads = desc.kv_heads * random.Integer(1, 2);
    desc.lse = true;
    Problem p(desc, seed);
    const double bound = std::pow(2.0, random.Uniform() * 6);
    if (i % 8 != 7) FillScores(p, static_cast<Keys>(i % 7), bound, seed);  // else plain normal numbers
    std::vector<float> bounds;
    std::vector<int8_t> degrees;
    const double error = std::vector<double>{1e-1, 1e-2, 1e-3}[i % 3];
    const ApproxReport report = RunApprox(p, Groups(error), &bounds, &degrees);
    CheckRows(p, report, DType::kF32, 7, "seed " + std::to_string(seed));
    EXPECT_LE(report.certified, error * 1.0001);
    skipped += report.blocks_skipped;
    poly += report.blocks_poly;
    exact += report.blocks_exact;
    for (int64_t row = 0; row < report.rows; row += 29) {
      const int64_t n = desc.q_len;
      const OracleRow want = ReferenceRow(p.desc, p.operands(), 0, row / n % desc.q_heads, row % n);
      if (row < n * desc.q_heads) {
        EXPECT_NEAR(p.lse[row], want.lse, error * 2.1 + 1e-5 * std::abs(want.lse)) << seed << " row " << row;
      }
    }
  }
  EXPECT_GT(skipped, 0);
  EXPECT_GT(poly, 0);
  EXPECT_GT(exact, 0);
}

TEST(Groups, PeakedClustersAreMostlySkipped) {
  Problem p(Desc(1000, 8192, 64), 1);
  FillClusters(p, 1, 4, 1);
  std::vector<float> bounds;
  std::vector<int8_t> degrees;
  const ApproxReport report = RunApprox(p, Groups(1e-2), &bounds, &degrees);
  CheckRows(p, report, DType::kF32, 41, "clusters");
  EXPECT_EQ(report.exact_rows, 0);
  EXPECT_LT(report.blocks_exact, report.blocks_skipped + report.blocks_poly);
}

TEST(Groups, BitIdenticalForAnyNumberOfWorkers) {
  Problem a(Desc(5000, 3000, 16), 2), b(Desc(5000, 3000, 16), 2);
  FillScores(a, Keys::kClustered, 4, 2);
  FillScores(b, Keys::kClustered, 4, 2);
  std::vector<float> bounds;
  std::vector<int8_t> degrees;
  RunApprox(a, Groups(1e-2), &bounds, &degrees);
  ThreadPool pool(3);
  RunApprox(b, Groups(1e-2), &bounds, &degrees, pool.parallel());
  for (int64_t i = 0; i < a.out.size(); ++i) ASSERT_EQ(a.out.Get(i), b.out.Get(i)) << i;
}

TEST(Groups, HugeQueriesAndNaNRunExactly) {
  for (double bad : {1e30, std::nan("")}) {
    Problem p(Desc(100, 3000, 16), 3);
    p.q.Set(p.QIndex(0, 0, 7, 3), bad);
    std::vector<float> bounds;
    std::vector<int8_t> degrees;
    ApproxReport report = RunApprox(p, Groups(1e-2), &bounds, &degrees);
    EXPECT_GE(report.exact_rows, 1);
    EXPECT_EQ(degrees[7], -1);
    if (!std::isnan(bad)) CheckRows(p, report, DType::kF32, 1, "huge query");
  }
}

TEST(Groups, NoGainMeansExact) {
  Problem p(Desc(600, 4096, 64), 4);  // unit normal: no group is small
  ApproxOptions options = Groups(1e-3);
  options.mode = ApproxMode::kFastest;
  std::vector<float> bounds;
  std::vector<int8_t> degrees;
  const ApproxReport report = RunApprox(p, options, &bounds, &degrees);
  EXPECT_EQ(report.exact_rows, 600);
  CheckRows(p, report, DType::kF32, 41, "no gain");
}

}  // namespace
}  // namespace attenio
