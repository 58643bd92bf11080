#include "attenio/approx.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "approx/approx_problem.h"
#include "approx/polynomial.h"

namespace attenio {
namespace {

using testing::ApproxCheck;
using testing::CheckRows;
using testing::FillScores;
using testing::Keys;
using testing::Problem;
using testing::RunApprox;

DType ProbabilityType(const AttentionDesc& desc) { return Plan::Create(desc)->probability_type(); }

struct Outcome {
  ApproxReport report;
  std::vector<float> bounds;
  std::vector<int8_t> degrees;
  ApproxCheck check;
};

Outcome RunAndCheck(Problem& p, const ApproxOptions& options, const std::string& what, int64_t stride = 1,
                const Parallel& parallel = SerialParallel()) {
  Outcome run;
  run.report = RunApprox(p, options, &run.bounds, &run.degrees, parallel);
  run.check = CheckRows(p, run.report, ProbabilityType(p.desc), stride, what);
  return run;
}

constexpr ApproxOptions Polynomial(double max_error, int max_degree = 8) {
  return {.max_error = max_error, .max_degree = max_degree, .mode = ApproxMode::kPolynomial, .workers = 4};
}

// The first block of the state holds degrees 0 and 1: where degree 0 suffices, coefficients of degree 1 must be zero, whatever the
// workspace held.
TEST(Approx, DegreeZeroReadsNothingThatWasNotWritten) {
  Problem p({.q_len = 150, .kv_len = 700, .qk_dim = 17, .v_dim = 3}, 5);
  p.desc.scale = 1e-4;
  const Outcome run = RunAndCheck(p, Polynomial(0.1), "degree 0");
  EXPECT_EQ(run.report.degree, 0);
  EXPECT_EQ(run.report.exact_rows, 0);
}

TEST(Approx, TwoHundredProblemsStayWithinTheirCertificates) {
  int64_t polynomial_rows = 0, exact_rows = 0;
  std::vector<double> idle;
  for (int i = 0; i < 200; ++i) {
    const uint64_t seed = 1000 + i;
    testing::Random random(seed);
    const int64_t d = random.Integer(0, 1) == 0 ? 16 : 32;
    const Keys keys = static_cast<Keys>(i % 7);
    const double error = std::vector<double>{1e-1, 1e-2, 1e-3}[i % 3];
    AttentionDesc desc{.q_len = random.Integer(1, 150), .kv_len = random.Integer(1, 700), .qk_dim = d, .v_dim = random.Integer(1, 40)};
    desc.kv_heads = random.Integer(1, 2);
    desc.q_heads = desc.kv_heads * random.Integer(1, 3);
    desc.dtype = std::vector<DType>{DType::kF32, DType::kBF16, DType::kF16}[random.Integer(0, 2)];
    if (random.Integer(0, 1) == 1) desc.out_dtype = DType::kF32;
    if (random.Integer(0, 3) == 0) desc.scale = -0.3;
    Problem p(desc, seed);
    FillScores(p, keys, 0.05 * std::pow(2.0, random.Uniform() * 6), seed);
    const Outcome run = RunAndCheck(p, Polynomial(error, 4), "seed " + std::to_string(seed) + " " + Name(keys), 3);
    polynomial_rows += run.report.rows - run.report.exact_rows;
    exact_rows += run.report.exact_rows;
    idle.insert(idle.end(), run.check.idle.begin(), run.check.idle.end());
    EXPECT_LE(run.report.certified, error);
  }
  EXPECT_GT(polynomial_rows, 2 * exact_rows / 3);  // the test is about polynomial rows
  EXPECT_GT(exact_rows, 0);
  std::nth_element(idle.begin(), idle.begin() + idle.size() / 2, idle.end());
  const double median = idle[idle.size() / 2];
  RecordProperty("median_certified_over_error", std::to_string(median));
  std::printf("[   info   ] %lld polynomial rows, %lld exact; median certified / error %.1f\n", static_cast<long long>(polynomial_rows),
              static_cast<long long>(exact_rows), median);
  EXPECT_GT(median, 1);
  EXPECT_LT(median, 300);  // random values: errors of many keys cancel; BoundIsNearlyAttained has the other end
}

TEST(Approx, TakesTheDegreeThatTheTableSays) {
  AttentionDesc desc{.q_len = 200, .kv_len = 3000, .qk_dim = 16, .v_dim = 16};
  Problem p(desc, 3);
  FillScores(p, Keys::kSphere, 0.9, 3);
  for (const auto& [error, degree] : {std::pair{0.1, 1}, {0.025, 2}, {0.003, 3}, {0.0004, 4}}) {
    const Outcome run = RunAndCheck(p, Polynomial(error), "degree");
    EXPECT_EQ(run.report.degree, degree) << error;
    EXPECT_EQ(run.report.exact_rows, 0);
    EXPECT_EQ(run.report.features, degree == 1 ? 17 : degree == 2 ? 153 : degree == 3 ? 969 : 4845);
  }
}

// Keys where the polynomial is farthest above and below exp, values that tell them apart, equal weight on both sides: the
// worst case of the certificate. A polynomial of degree 1 errs by +E at both ends and by -E at one point inside.
TEST(Approx, BoundIsNearlyAttained) {
  for (const double max_error : {0.1, 0.02}) {
    const AttentionDesc desc{.q_len = 1, .kv_len = 3000, .qk_dim = 1, .v_dim = 1, .scale = 1.0};
    const Result<ApproxPlan> plan = ApproxPlan::Create(desc, Polynomial(max_error, 1));
    ASSERT_TRUE(plan.ok());
    const double bound = plan->largest_bound() * 0.999;
    const approx::ExpPolynomial e = approx::MinimaxExp(bound, 1);
    const double inside = bound - e.coefficient[0] / e.coefficient[1] * bound + 1 - bound;  // where (p e^-x)' = 0
    // Of 1 + up + down keys: weights balance, mean 0.
    const double down = (std::exp(inside) + inside / bound * std::exp(bound)) / (2 * std::cosh(bound));
    const double up = down - inside / bound;
    Problem p(desc, 1);
    p.q.Set(0, 1);
    for (int64_t j = 0; j < 3000; ++j) {
      const double at = static_cast<double>(j) / 3000 * (1 + up + down);
      p.k.Set(j, at < up ? bound : at < up + down ? -bound : inside);
      p.v.Set(j, at < up + down ? 1 : -1);
    }
    const Outcome run = RunAndCheck(p, Polynomial(max_error, 1), "attained");
    ASSERT_EQ(run.report.exact_rows, 0);
    EXPECT_GT(run.check.worst_certified, 0.9) << max_error;
  }
}

TEST(Approx, BitIdenticalForAnyNumberOfWorkers) {
  AttentionDesc desc{.q_heads = 2, .q_len = 700, .kv_len = 9000, .qk_dim = 16, .v_dim = 24, .lse = true};
  Problem a(desc, 4), b(desc, 4);
  FillScores(a, Keys::kOutlier, 1.0, 4);
  FillScores(b, Keys::kOutlier, 1.0, 4);
  const Outcome first = RunAndCheck(a, Polynomial(1e-2), "one worker", 7);
  ThreadPool pool(4);
  const Outcome second = RunAndCheck(b, Polynomial(1e-2), "four workers", 7, pool.parallel());
  EXPECT_GT(first.report.rows, first.report.exact_rows);
  EXPECT_GT(first.report.outlier_keys, 0);
  for (int64_t i = 0; i < a.out.size(); ++i) ASSERT_EQ(a.out.Get(i), b.out.Get(i)) << i;
  EXPECT_EQ(a.lse, b.lse);
}

TEST(Approx, LogSumExpIsThatOfTheWeights) {
  AttentionDesc desc{.q_heads = 4, .kv_heads = 2, .q_len = 100, .kv_len = 800, .qk_dim = 8, .v_dim = 8, .lse = true};
  for (const Keys keys : {Keys::kOffset, Keys::kOutlier}) {
    Problem p(desc, 5);
    FillScores(p, keys, 1.0, 5);
    const Outcome run = RunAndCheck(p, Polynomial(1e-3), "lse");
    EXPECT_GT(run.report.rows, 2 * run.report.exact_rows);
    for (int64_t row = 0; row < 400; ++row) {
      const testing::Problem& c = p;
      const OracleRow want = ReferenceRow(c.desc, p.operands(), 0, row / 100, row % 100);
      // ln(1 +- weight error), and the rounding of f32 numbers as large as the centre's score.
      EXPECT_NEAR(p.lse[row], want.lse, 2.1e-3 + 1e-6 * std::abs(want.lse)) << row;
    }
  }
}

TEST(Approx, CausalChunksMatchTheOracle) {
  for (const int64_t offset : {0, 300, -100}) {
    AttentionDesc desc{.q_heads = 2, .q_len = 2500, .kv_len = 2500 + std::max<int64_t>(0, offset), .qk_dim = 8, .v_dim = 12,
                       .causal = true, .offset = offset, .lse = true};
    Problem p(desc, 6);
    FillScores(p, Keys::kBall, 1.0, 6);
    const Outcome run = RunAndCheck(p, Polynomial(1e-2), "causal offset " + std::to_string(offset), 37);
    EXPECT_LT(run.report.exact_rows, run.report.rows * 3 / 4) << run.report.reason;
    for (int64_t row = 0; row < 5000; row += 37) {
      const OracleRow want = ReferenceRow(p.desc, p.operands(), 0, row / 2500, row % 2500);
      if (want.allowed == 0) {
        EXPECT_EQ(p.lse[row], want.lse) << row;
      } else {
        EXPECT_NEAR(p.lse[row], want.lse, 2.1e-2) << row;
      }
    }
  }
}

TEST(Approx, CausalIsBitIdenticalForAnyNumberOfWorkers) {
  AttentionDesc desc{.q_heads = 4, .kv_heads = 2, .q_len = 2000, .kv_len = 2000, .qk_dim = 16, .v_dim = 16, .causal = true};
  Problem a(desc, 7), b(desc, 7);
  FillScores(a, Keys::kSphere, 1.0, 7);
  FillScores(b, Keys::kSphere, 1.0, 7);
  RunAndCheck(a, Polynomial(1e-2), "one worker", 37);
  ThreadPool pool(3);
  RunAndCheck(b, Polynomial(1e-2), "three workers", 37, pool.parallel());
  for (int64_t i = 0; i < a.out.size(); ++i) ASSERT_EQ(a.out.Get(i), b.out.Get(i)) << i;
}

// ---------------------------------------------------------------- adversarial inputs

Problem Base(int64_t q_len = 120, int64_t kv_len = 900, DType type = DType::kF32) {
  Problem p({.q_len = q_len, .kv_len = kv_len, .qk_dim = 16, .v_dim = 16, .dtype = type}, 8);
  FillScores(p, Keys::kBall, 1.0, 8);
  return p;
}

TEST(ApproxAdversarial, OneHugeKeyIsAddedExactly) {
  for (double length : {1e2, 1e3, 1e6, 1e18, 1e30, 3e38}) {
    Problem p = Base();
    p.k.Set(p.KIndex(0, 0, 77, 3), length);
    const Outcome run = RunAndCheck(p, Polynomial(1e-2), "huge key " + std::to_string(length));
    if (length > 1e3) continue;  // scores beyond 500 are not exact to the certificate in f32: the exact path has them
    EXPECT_EQ(run.report.outlier_keys, 1) << length;
    EXPECT_LE(run.report.exact_rows, length > 1e2 ? 60 : 0) << length;
  }
}

TEST(ApproxAdversarial, OneHugeQueryIsComputedExactly) {
  for (double length : {1e2, 1e6, 1e30}) {
    Problem p = Base();
    p.q.Set(p.QIndex(0, 0, 5, 0), length);
    const Outcome run = RunAndCheck(p, Polynomial(1e-2), "huge query " + std::to_string(length));
    EXPECT_EQ(run.degrees[5], -1);
    EXPECT_EQ(run.report.exact_rows, 1);
    EXPECT_STRNE(run.report.reason, "");
  }
}

TEST(ApproxAdversarial, EqualKeys) {
  for (double value : {0.0, 1.0, 1234.5, 1e-30, 1e20}) {
    Problem p = Base();
    for (int64_t j = 0; j < 900; ++j) {
      for (int64_t c = 0; c < 16; ++c) p.k.Set(p.KIndex(0, 0, j, c), value * (1 + static_cast<double>(c)));
    }
    const Outcome run = RunAndCheck(p, Polynomial(1e-3), "equal keys " + std::to_string(value));
    EXPECT_EQ(run.report.exact_rows, 0) << value;
    EXPECT_EQ(run.report.degree, 0) << value;
  }
}

TEST(ApproxAdversarial, DuplicatedKeysAndTinyProblems) {
  for (int64_t m : {1, 2, 3, 17}) {
    Problem p = Base(m, m);
    for (int64_t j = 0; j < m; ++j) {
      for (int64_t c = 0; c < 16; ++c) p.k.Set(p.KIndex(0, 0, j, c), p.k.Get(p.KIndex(0, 0, j / 2, c)));
    }
    RunAndCheck(p, Polynomial(1e-2), "tiny " + std::to_string(m));  // fewer keys than features
  }
}

TEST(ApproxAdversarial, NonFiniteInputRunsExactly) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (double bad : {nan, infinity, -infinity}) {
    Problem k = Base(), v = Base(), q = Base();
    k.k.Set(k.KIndex(0, 0, 11, 2), bad);
    v.v.Set(v.VIndex(0, 0, 11, 2), bad);
    q.q.Set(q.QIndex(0, 0, 11, 2), bad);
    for (Problem* p : {&k, &v}) {
      std::vector<float> bounds;
      std::vector<int8_t> degrees;
      const ApproxReport report = RunApprox(*p, Polynomial(1e-2), &bounds, &degrees);
      EXPECT_EQ(report.exact_rows, report.rows);
      EXPECT_STREQ(report.reason, "keys or values are not finite");
    }
    std::vector<float> bounds;
    std::vector<int8_t> degrees;
    const ApproxReport report = RunApprox(q, Polynomial(1e-2), &bounds, &degrees);
    EXPECT_EQ(report.exact_rows, 1);
    EXPECT_EQ(degrees[11], -1);
    Problem exact = Base();
    exact.q.Set(exact.QIndex(0, 0, 11, 2), bad);
    testing::RunPlan(&exact);
    for (int64_t c = 0; c < 16; ++c) {
      const double want = exact.Out(0, 0, 11, c), got = q.Out(0, 0, 11, c);
      EXPECT_TRUE(want == got || (std::isnan(want) && std::isnan(got)));
    }
  }
}

TEST(ApproxAdversarial, Denormals) {
  Problem p = Base();
  for (int64_t j = 0; j < 900; ++j) {
    for (int64_t c = 0; c < 16; ++c) p.k.Set(p.KIndex(0, 0, j, c), p.k.Get(p.KIndex(0, 0, j, c)) * 1e-41);
  }
  const Outcome run = RunAndCheck(p, Polynomial(1e-3), "denormal keys");
  EXPECT_EQ(run.report.exact_rows, 0);
  Problem v = Base();
  for (int64_t j = 0; j < 900; ++j) {
    for (int64_t c = 0; c < 16; ++c) v.v.Set(v.VIndex(0, 0, j, c), v.v.Get(v.VIndex(0, 0, j, c)) * 1e-41);
  }
  std::vector<float> bounds;
  std::vector<int8_t> degrees;
  RunApprox(v, Polynomial(1e-2), &bounds, &degrees);
  for (int64_t i = 0; i < v.out.size(); ++i) EXPECT_LE(std::abs(v.out.Get(i)), 6e-41);
}

TEST(ApproxAdversarial, LargeConstantValuesKeepTheirRange) {
  // The certificate is relative to the range of the values, however far they lie from zero.
  Problem p = Base();
  for (int64_t j = 0; j < 900; ++j) {
    for (int64_t c = 0; c < 16; ++c) p.v.Set(p.VIndex(0, 0, j, c), 1000 + p.v.Get(p.VIndex(0, 0, j, c)));
  }
  const Outcome run = RunAndCheck(p, Polynomial(1e-3), "values around 1000");
  EXPECT_EQ(run.report.exact_rows, 0);
}

TEST(Approx, ModifiersRunExactlyAndSaySo) {
  AttentionDesc base{.q_len = 40, .kv_len = 300, .qk_dim = 8, .v_dim = 8};
  AttentionDesc softcap = base, alibi = base, mask = base, window = base, sinks = base;
  softcap.softcap = 5;
  alibi.alibi = true;
  mask.mask = {.dtype = DType::kBool, .batch = 0, .head = 0, .query = 300, .key = 1};
  window.window_left = 10;
  sinks.sinks = true;
  for (const AttentionDesc& d : {softcap, alibi, mask, window, sinks}) {
    Problem p(d, 9);
    const Outcome run = RunAndCheck(p, Polynomial(1e-2), "modifier");
    EXPECT_EQ(run.report.exact_rows, 40);
    EXPECT_STRNE(run.report.reason, "");
  }
}

TEST(Approx, SmallProblemsRunExactlyBecauseThatIsFaster) {
  Problem p = Base(64, 64);
  const Outcome run = RunAndCheck(p, {.max_error = 1e-2, .workers = 1}, "small");
  EXPECT_EQ(run.report.exact_rows, 64);
  EXPECT_STREQ(run.report.reason, "too few rows can be certified for a gain");
}

TEST(Approx, OptionsAreChecked) {
  const AttentionDesc desc{.q_len = 4, .kv_len = 4, .qk_dim = 8, .v_dim = 8};
  EXPECT_FALSE(ApproxPlan::Create(desc, {.max_error = 0}).ok());
  EXPECT_FALSE(ApproxPlan::Create(desc, {.max_error = 1.5}).ok());
  EXPECT_FALSE(ApproxPlan::Create(desc, {.max_error = std::nan("")}).ok());
  EXPECT_FALSE(ApproxPlan::Create(desc, {.max_degree = 21}).ok());
  EXPECT_FALSE(ApproxPlan::Create(desc, {.workers = -1}).ok());
}

TEST(Approx, StridedAndBroadcastTensors) {
  // BSHD layout, K and V shared by the batch.
  AttentionDesc desc{.batch = 2, .q_heads = 3, .kv_heads = 3, .q_len = 50, .kv_len = 400, .qk_dim = 8, .v_dim = 8};
  desc.q = {.batch = 50 * 24, .head = 8, .row = 24, .element = 1};
  desc.out = desc.q;
  desc.k = {.batch = 0, .head = 400 * 8, .row = 8, .element = 1};
  desc.v = desc.k;
  Problem p(desc, 10);
  FillScores(p, Keys::kOneSided, 1.0, 10);
  const Outcome run = RunAndCheck(p, Polynomial(1e-2), "strided");
  EXPECT_LT(run.report.exact_rows, 20);
}

}  // namespace
}  // namespace attenio
