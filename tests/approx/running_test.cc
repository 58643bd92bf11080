// Decode from a running state, and the comparators.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "approx/approx_problem.h"
#include "approx/comparators.h"

namespace attenio {
namespace {

using testing::Direction;
using testing::Problem;

AttentionDesc Desc(int64_t n, int64_t m, int64_t d) {
  AttentionDesc desc;
  desc.q_len = n;
  desc.kv_len = m;
  desc.qk_dim = desc.v_dim = d;
  return desc;
}

// Rows of length `length` times a random factor up to 1.
std::vector<float> Ball(int64_t n, int64_t d, double length, uint64_t seed) {
  testing::Random random(seed);
  std::vector<float> rows;
  for (int64_t i = 0; i < n; ++i) {
    const double l = length * random.Uniform();
    for (double x : Direction(random, d)) rows.push_back(static_cast<float>(l * x));
  }
  return rows;
}

TEST(RunningState, EveryTokenStaysWithinItsCertificate) {
  const int64_t d = 8, dv = 6, tokens = 60000;
  RunningOptions options;
  options.qk_dim = d;
  options.v_dim = dv;
  options.scale = 1.0;
  options.key_radius = 1;
  options.query_norm = 1;
  options.max_error = 1e-2;
  std::vector<float> centre(d, 3.0f);
  options.centre = centre;
  Result<RunningState> state = RunningState::Create(options);
  ASSERT_TRUE(state.ok()) << state.status().message();
  EXPECT_EQ(state->degree(), 3);
  EXPECT_EQ(state->features(), 165);
  const std::vector<float> k = Ball(tokens, d, 0.99, 1), v = Ball(tokens, dv, 5, 2), q = Ball(tokens, d, 1, 3);
  std::vector<double> low(dv, INFINITY), high(dv, -INFINITY);
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<float> key(k.begin() + t * d, k.begin() + (t + 1) * d);
    for (float& x : key) x += 3;
    ASSERT_TRUE(state->Add(key.data(), &v[t * dv]).ok());
    for (int64_t c = 0; c < dv; ++c) {
      low[c] = std::min<double>(low[c], v[t * dv + c]);
      high[c] = std::max<double>(high[c], v[t * dv + c]);
    }
    if (t > 3 && t % 7919 != 0 && t + 1 != tokens) continue;
    std::vector<float> out(2 * dv), certified(2);
    const Status s = state->Attend(&q[(t / 2) * d], 2, out.data(), certified.data());
    ASSERT_TRUE(s.ok()) << s.message();
    for (int64_t r = 0; r < 2; ++r) {
      double den = 0;
      std::vector<double> want(dv);
      for (int64_t j = 0; j <= t; ++j) {
        double score = 0;
        for (int64_t c = 0; c < d; ++c) score += static_cast<double>(q[(t / 2 + r) * d + c]) * k[j * d + c];  // without the centre: the same weights
        den += std::exp(score);
        for (int64_t c = 0; c < dv; ++c) want[c] += std::exp(score) * v[j * dv + c];
      }
      for (int64_t c = 0; c < dv; ++c) {
        EXPECT_LE(std::abs(out[r * dv + c] - want[c] / den), certified[r] * (high[c] - low[c]) + 1e-6 * std::abs(want[c] / den)) << t;
      }
      EXPECT_LE(certified[r], 1e-2);
    }
  }
  EXPECT_EQ(state->keys(), tokens);
}

TEST(RunningState, OneByOneEqualsAllAtOnceAndBytesDoNotGrow) {
  RunningOptions options;
  options.qk_dim = options.v_dim = 8;
  options.key_radius = options.query_norm = 1;
  Result<RunningState> one = RunningState::Create(options), all = RunningState::Create(options);
  ASSERT_TRUE(one.ok() && all.ok());
  const int64_t bytes = one->bytes();
  const std::vector<float> k = Ball(1000, 8, 1, 4), v = Ball(1000, 8, 1, 5);
  for (int64_t t = 0; t < 1000; ++t) ASSERT_TRUE(one->Add(&k[t * 8], &v[t * 8]).ok());
  ASSERT_TRUE(all->Add(k.data(), v.data(), 1000).ok());
  std::vector<float> a(8), b(8);
  ASSERT_TRUE(one->Attend(k.data(), 1, a.data()).ok());
  ASSERT_TRUE(all->Attend(k.data(), 1, b.data()).ok());
  EXPECT_EQ(a, b);
  EXPECT_EQ(one->bytes(), bytes);
}

TEST(RunningState, RefusesWhatItCannotCertify) {
  RunningOptions options;
  options.qk_dim = options.v_dim = 2;
  options.scale = 1.0;
  options.key_radius = options.query_norm = 1;
  Result<RunningState> state = RunningState::Create(options);
  ASSERT_TRUE(state.ok());
  const float near[] = {0.5f, 0.5f}, far[] = {3, 0}, nan[] = {std::nanf(""), 0}, value[] = {1, 2};
  float out[2];
  EXPECT_FALSE(state->Attend(near, 1, out).ok());  // no key yet
  EXPECT_EQ(state->Add(far, value).code(), Code::kInvalidArgument);
  EXPECT_EQ(state->Add(nan, value).code(), Code::kInvalidArgument);
  EXPECT_EQ(state->Add(near, nan).code(), Code::kInvalidArgument);
  EXPECT_EQ(state->keys(), 0);
  ASSERT_TRUE(state->Add(near, value).ok());
  EXPECT_EQ(state->Attend(far, 1, out).code(), Code::kUnsupported);
  EXPECT_EQ(state->Attend(nan, 1, out).code(), Code::kUnsupported);
  ASSERT_TRUE(state->Attend(near, 1, out).ok());
  EXPECT_NEAR(out[0], 1, 1e-6);
  EXPECT_NEAR(out[1], 2, 1e-6);
  options.key_radius = 1000;
  EXPECT_EQ(RunningState::Create(options).status().code(), Code::kUnsupported);
  options.key_radius = -1;
  EXPECT_EQ(RunningState::Create(options).status().code(), Code::kInvalidArgument);
}

// ---------------------------------------------------------------- comparators

void RunOn(Problem& p, Comparator method, int64_t features) {
  ComparatorOptions options;
  options.method = method;
  options.features = features;
  const Status s = RunComparator(p.desc, p.operands(), options);
  ASSERT_TRUE(s.ok()) << s.message();
}

double WorstError(Problem& p) {
  double worst = 0;
  for (int64_t i = 0; i < p.desc.q_len; ++i) {
    const OracleRow want = ReferenceRow(p.desc, p.operands(), 0, 0, i);
    for (int64_t c = 0; c < p.desc.v_dim; ++c) worst = std::max(worst, std::abs(p.Out(0, 0, i, c) - want.out[c]));
  }
  return worst;
}

TEST(Comparators, TaylorTwoMissesAWeightByAThirdAtMinusOne) {
  // Two keys at scores -1 and 0, values 1 and 0: out / (1 - out) is the ratio of the weights, 1/2 instead of 1/e.
  AttentionDesc desc = Desc(1, 2, 1);
  desc.scale = 1.0;
  Problem p(desc, 1);
  p.q.Set(0, 1);
  p.k.Set(0, -1);
  p.k.Set(1, 0);
  p.v.Set(0, 1);
  p.v.Set(1, 0);
  RunOn(p, Comparator::kTaylor, 2);
  const double ratio = p.Out(0, 0, 0, 0) / (1 - p.Out(0, 0, 0, 0));
  EXPECT_NEAR(ratio * std::exp(1.0) - 1, 0.36, 0.005);
}

TEST(Comparators, PerformerHasItsVariance) {
  const float x[] = {.5f, -.3f, .2f, .4f}, y[] = {.1f, .6f, -.2f, .3f};
  double mean = 0, square = 0;
  const double want = std::exp(.05 - .18 - .04 + .12);
  const int runs = 20000;
  for (int i = 0; i < runs; ++i) {
    const double e = approx::PerformerEstimate(x, y, 4, 16, 100 + i) - want;
    mean += e / runs;
    square += e * e / runs;
  }
  const double variance = approx::PerformerVariance(x, y, 4, 16);
  EXPECT_NEAR(mean, 0, 4 * std::sqrt(variance / runs));
  EXPECT_NEAR(square / variance, 1, 0.1);
}

TEST(Comparators, PerformerConverges) {
  AttentionDesc desc = Desc(20, 200, 4);
  desc.scale = 0.1;  // the variance grows with e^{|q + k|^2}
  Problem p(desc, 2);
  RunOn(p, Comparator::kPerformer, 64);
  const double few = WorstError(p);
  RunOn(p, Comparator::kPerformer, 16384);
  EXPECT_LT(WorstError(p), few / 3);
}

TEST(Comparators, NystromIsExactWhenEveryKeyIsALandmark) {
  Problem p(Desc(30, 40, 8), 3);
  RunOn(p, Comparator::kNystrom, 40);
  EXPECT_LT(WorstError(p), 1e-5);
  RunOn(p, Comparator::kNystrom, 8);
  EXPECT_GT(WorstError(p), 1e-3);
}

TEST(Comparators, WindowIsCausalAttentionWhenItIsWide) {
  AttentionDesc desc = Desc(50, 50, 8);
  desc.causal = true;
  Problem p(desc, 4);
  RunOn(p, Comparator::kWindow, 50);
  EXPECT_LT(WorstError(p), 1e-6);
  // Narrow: the oracle with the same keys as a mask.
  desc.mask = {.dtype = DType::kBool, .batch = 2500, .head = 2500, .query = 50, .key = 1};
  Problem masked(desc, 4);
  for (int64_t i = 0; i < 50; ++i) {
    for (int64_t j = 0; j < 50; ++j) masked.mask.Set(i * 50 + j, j < 4 || j > i - 7);
  }
  RunOn(p, Comparator::kWindow, 7);
  for (int64_t i = 0; i < 50; ++i) {
    const OracleRow want = ReferenceRow(masked.desc, masked.operands(), 0, 0, i);
    for (int64_t c = 0; c < 8; ++c) EXPECT_NEAR(p.Out(0, 0, i, c), want.out[c], 1e-6) << i;
  }
}

TEST(Comparators, RefuseModifiers) {
  AttentionDesc desc = Desc(4, 4, 4);
  desc.softcap = 1;
  Problem p(desc, 5);
  EXPECT_EQ(RunComparator(p.desc, p.operands(), {}).code(), Code::kUnsupported);
  p.desc.softcap = 0;
  p.desc.causal = true;
  EXPECT_EQ(RunComparator(p.desc, p.operands(), {}).code(), Code::kUnsupported);
}

}  // namespace
}  // namespace attenio
