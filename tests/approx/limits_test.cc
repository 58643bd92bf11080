// Hostile callers: sizes and options beyond what approximation can represent come back at once, with an error that names the
// argument or as an exact call that says why.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "approx/approx_problem.h"
#include "approx/state.h"
#include "attenio/io_poly.h"

namespace attenio {
namespace {

using testing::Problem;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void ExpectNames(const Status& status, Code code, const std::string& argument) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(std::string(status.message()).find(argument), std::string::npos) << status.message();
}

TEST(FeatureCount, SaturatesAndNeverLoops) {
  EXPECT_EQ(FeatureCount(64, 2), 2145);
  EXPECT_EQ(FeatureCount(0, 2147483647), 1);
  EXPECT_EQ(FeatureCount(1, 2147483647), int64_t{2147483648});
  EXPECT_EQ(FeatureCount(33, 33), int64_t{7219428434016265740});  // C(66, 33), the largest central one in 63 bits
  EXPECT_EQ(FeatureCount(34, 34), INT64_MAX);
  EXPECT_EQ(FeatureCount(INT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(FeatureCount(INT64_MAX - 1, 1), INT64_MAX);
  EXPECT_EQ(FeatureCount(INT64_MAX, 2147483647), INT64_MAX);
  EXPECT_EQ(FeatureCount(int64_t{1} << 31, 2), (int64_t{1} << 61) + 3 * (int64_t{1} << 30) + 1);
  EXPECT_EQ(FeatureCount(64, 0), 1);
}

TEST(RunningLimits, DimensionsAndNumbersAreChecked) {
  RunningOptions fine;
  fine.qk_dim = fine.v_dim = 7;
  ASSERT_TRUE(RunningState::Create(fine).ok());
  for (const int64_t dim : {int64_t{0}, int64_t{-1}, approx::kMaxDim + 1, int64_t{1} << 31, INT64_MAX, INT64_MIN}) {
    RunningOptions o = fine;
    o.qk_dim = dim;
    ExpectNames(RunningState::Create(o).status(), Code::kInvalidArgument, "qk_dim");
    o = fine;
    o.v_dim = dim;
    ExpectNames(RunningState::Create(o).status(), Code::kInvalidArgument, "v_dim");
  }
  for (const double bad : {kNaN, kInfinity, -1.0}) {
    RunningOptions o = fine;
    o.key_radius = bad;
    ExpectNames(RunningState::Create(o).status(), Code::kInvalidArgument, "key_radius");
    o = fine;
    o.query_norm = bad;
    ExpectNames(RunningState::Create(o).status(), Code::kInvalidArgument, "query_norm");
    o = fine;
    o.max_error = bad;
    ExpectNames(RunningState::Create(o).status(), Code::kInvalidArgument, "max_error");
    o = fine;
    o.scale = bad == -1.0 ? 1e200 : bad;
    ExpectNames(RunningState::Create(o).status(), Code::kInvalidArgument, "scale");
  }
  for (const int degree : {-1, 21, INT32_MAX}) {
    RunningOptions o = fine;
    o.max_degree = degree;
    ExpectNames(RunningState::Create(o).status(), Code::kInvalidArgument, "max_degree");
  }
  RunningOptions o = fine;
  const float centre[] = {1, 2};
  o.centre = centre;
  ExpectNames(RunningState::Create(o).status(), Code::kInvalidArgument, "centre");
}

TEST(RunningLimits, LargestStateAndProductsThatOverflow) {
  RunningOptions o;
  o.qk_dim = approx::kMaxDim;
  o.v_dim = 7;
  o.max_error = 1;
  Result<RunningState> wide = RunningState::Create(o);  // radius 0: degree 0
  ASSERT_TRUE(wide.ok()) << wide.status().message();
  EXPECT_EQ(wide->features(), 1);
  o.v_dim = approx::kMaxDim;
  o.key_radius = 1;
  o.query_norm = 100;
  o.max_error = 0.1;
  ExpectNames(RunningState::Create(o).status(), Code::kUnsupported, "v_dim");  // 32769 features x 32768
  o.qk_dim = o.v_dim = 4;
  o.key_radius = o.query_norm = 3e38;  // their product is the bound
  ExpectNames(RunningState::Create(o).status(), Code::kUnsupported, "key_radius");
}

// q = 0 makes every score 0, whatever the scale and the radius multiply to.
TEST(RunningLimits, ExtremeScalesGiveTheMeanOrARefusal) {
  for (const double scale : {0.0, 0x1p127, -0x1p127}) {
    for (const double radius : {0.0, 1.0, 1e38}) {
      RunningOptions o;
      o.qk_dim = o.v_dim = 2;
      o.scale = scale;
      o.key_radius = radius;
      Result<RunningState> state = RunningState::Create(o);
      ASSERT_TRUE(state.ok()) << state.status().message();
      const float key[] = {0, 0, 0, 0}, value[] = {1, 2, 3, 4}, zero[] = {0, 0}, tiny[] = {1e-45f, 0},
                  huge[] = {1e30f, 0};
      ASSERT_TRUE(state->Add(key, value, 2).ok());
      float out[2];
      ASSERT_TRUE(state->Attend(zero, 1, out).ok());
      EXPECT_NEAR(out[0], 2, 1e-6);
      EXPECT_NEAR(out[1], 3, 1e-6);
      for (const float* query : {tiny, huge}) {
        if (!state->Attend(query, 1, out).ok()) continue;
        EXPECT_NEAR(out[0], 2, 1e-6) << scale << " " << radius;
      }
    }
  }
}

TEST(RunningLimits, ValuesWhoseSumsWouldOverflowAreRefused) {
  RunningOptions o;
  o.qk_dim = o.v_dim = 1;
  Result<RunningState> state = RunningState::Create(o);
  ASSERT_TRUE(state.ok());
  const float key = 0, large = 3e38f;
  ExpectNames(state->Add(&key, &large), Code::kInvalidArgument, "value");
  EXPECT_EQ(state->keys(), 0);
}

AttentionDesc Desc(int64_t n, int64_t m, int64_t qk_dim, int64_t v_dim) {
  AttentionDesc d;
  d.q_len = n;
  d.kv_len = m;
  d.qk_dim = qk_dim;
  d.v_dim = v_dim;
  return d;
}

TEST(ApproxLimits, HugeDimensionsPlanAtOnce) {
  for (const ApproxMethod method : {ApproxMethod::kState, ApproxMethod::kGroups}) {
    for (const ApproxMode mode : {ApproxMode::kFastest, ApproxMode::kPolynomial}) {
      for (const int64_t huge : {int64_t{40000}, int64_t{1} << 31, int64_t{1} << 45}) {
        for (AttentionDesc d : {Desc(3, 1471, huge, 7), Desc(3, 1471, 7, huge), Desc(2, 2, huge, huge),
                                Desc(1, huge, 1, 1), Desc(huge, 1, 1, 1)}) {
          for (const bool broadcast : {false, true}) {
            if (broadcast) d.q.row = d.k.row = d.v.row = 0;
            ApproxOptions o;
            o.method = method;
            o.mode = mode;
            o.workers = 2;
            const Result<ApproxPlan> plan = ApproxPlan::Create(d, o);
            if (plan.ok()) {
              EXPECT_GE(plan->largest_bound(), 0);
            } else {
              EXPECT_STRNE(plan.status().message(), "");
            }
          }
        }
      }
    }
  }
}

TEST(ApproxLimits, DimensionsBeyondAStateRunExactly) {
  Problem p(Desc(3, 40, approx::kMaxDim + 1, 5), 1);
  std::vector<float> bounds;
  std::vector<int8_t> degrees;
  ApproxOptions o;
  o.mode = ApproxMode::kPolynomial;
  const ApproxReport report = testing::RunApprox(p, o, &bounds, &degrees);
  EXPECT_EQ(report.exact_rows, 3);
  EXPECT_NE(std::string(report.reason).find("qk_dim"), std::string::npos);
  testing::CheckRows(p, report, DType::kF32, 1, "wide");
}

TEST(ApproxLimits, OptionsNameTheArgument) {
  const AttentionDesc d = Desc(4, 4, 8, 8);
  for (const double bad : {kNaN, kInfinity, -kInfinity, -1e-2, 0.0, 1.0001}) {
    ApproxOptions o;
    o.max_error = bad;
    ExpectNames(ApproxPlan::Create(d, o).status(), Code::kInvalidArgument, "max_error");
  }
  for (const int bad : {-1, 21, INT32_MAX, INT32_MIN}) {
    ApproxOptions o;
    o.max_degree = bad;
    ExpectNames(ApproxPlan::Create(d, o).status(), Code::kInvalidArgument, "max_degree");
  }
  ApproxOptions o;
  o.method = static_cast<ApproxMethod>(7);
  ExpectNames(ApproxPlan::Create(d, o).status(), Code::kInvalidArgument, "method");
  o = {};
  o.mode = static_cast<ApproxMode>(7);
  ExpectNames(ApproxPlan::Create(d, o).status(), Code::kInvalidArgument, "mode");
}

TEST(ApproxLimits, ValuesWhoseSumsWouldOverflowRunExactly) {
  for (const ApproxMethod method : {ApproxMethod::kState, ApproxMethod::kGroups}) {
    Problem p(Desc(5, 2000, 4, 4), 2);
    for (int64_t j = 0; j < 2000; ++j) p.v.Set(p.VIndex(0, 0, j, 1), j % 2 == 0 ? 1e29 : -1e29);
    ApproxOptions o;
    o.method = method;
    o.mode = ApproxMode::kPolynomial;
    std::vector<float> bounds;
    std::vector<int8_t> degrees;
    const ApproxReport report = testing::RunApprox(p, o, &bounds, &degrees);
    EXPECT_STREQ(report.reason, "values are too large to add up");
    testing::CheckRows(p, report, DType::kF32, 1, "large values");
  }
}

TEST(ComparatorLimits, FeaturesAreChecked) {
  Problem p(Desc(2, 3, 64, 4), 3);
  for (const Comparator method :
       {Comparator::kTaylor, Comparator::kPerformer, Comparator::kNystrom, Comparator::kWindow}) {
    p.desc.causal = method == Comparator::kWindow;
    for (const int64_t bad : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
      ExpectNames(RunComparator(p.desc, p.operands(), {.method = method, .features = bad}), Code::kInvalidArgument,
                  "features");
    }
    if (method == Comparator::kWindow) continue;  // wider than the keys is the causal mask
    ExpectNames(RunComparator(p.desc, p.operands(), {.method = method, .features = INT64_MAX}), Code::kInvalidArgument,
                "features");
  }
  p.desc.causal = false;
  ExpectNames(RunComparator(p.desc, p.operands(), {.method = Comparator::kTaylor, .features = 8}), Code::kUnsupported,
              "features");
  ExpectNames(RunComparator(p.desc, p.operands(), {.method = static_cast<Comparator>(9)}), Code::kInvalidArgument,
              "method");
  p.desc.causal = true;
  ExpectNames(RunComparator(p.desc, p.operands(), {.method = Comparator::kWindow, .sinks = -1}), Code::kInvalidArgument,
              "sinks");
  EXPECT_TRUE(RunComparator(p.desc, p.operands(), {.method = Comparator::kWindow, .features = INT64_MAX}).ok());
}

}  // namespace
}  // namespace attenio
