// Problems for approximate attention: distributions with a known score bound, run and checked row by row against f64.
#ifndef ATTENIO_TESTS_APPROX_APPROX_PROBLEM_H_
#define ATTENIO_TESTS_APPROX_APPROX_PROBLEM_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "api/oracle.h"
#include "attenio/approx.h"
#include "support/problem.h"

namespace attenio::testing {

enum class Keys { kSphere, kBall, kNormal, kOffset, kClustered, kOutlier, kOneSided };
inline const char* Name(Keys k) {
  const char* names[] = {"sphere", "ball", "normal", "offset", "clustered", "outlier", "one-sided"};
  return names[static_cast<int>(k)];
}

inline std::vector<double> Direction(Random& random, int64_t d) {
  std::vector<double> x(d);
  double square = 0;
  for (double& v : x) {
    v = random.Normal();
    square += v * v;
  }
  for (double& v : x) v /= std::sqrt(square);
  return x;
}

// Fills q and k so that |scale| |q| |k - centre| is about `bound` for most pairs (kNormal: in the mean).
inline void FillScores(Problem& p, Keys keys, double bound, uint64_t seed) {
  Random random(seed);
  const AttentionDesc& d = p.desc;
  const int64_t dim = d.qk_dim;
  const double scale = d.scale.has_value() ? std::abs(*d.scale) : 1 / std::sqrt(static_cast<double>(dim));
  const double length = std::sqrt(bound / scale);
  std::vector<std::vector<double>> centres;
  for (int i = 0; i < 8; ++i) centres.push_back(Direction(random, dim));
  for (int64_t b = 0; b < d.batch; ++b) {
    for (int64_t h = 0; h < d.q_heads; ++h) {
      for (int64_t i = 0; i < d.q_len; ++i) {
        const std::vector<double> x = Direction(random, dim);
        const double l = keys == Keys::kBall || keys == Keys::kOneSided ? length * random.Uniform() : length;
        for (int64_t c = 0; c < dim; ++c) p.q.Set(p.QIndex(b, h, i, c), keys == Keys::kNormal ? random.Normal() * length / std::sqrt(dim) : l * x[c]);
      }
    }
    for (int64_t h = 0; h < d.kv_heads; ++h) {
      for (int64_t j = 0; j < d.kv_len; ++j) {
        std::vector<double> x = Direction(random, dim);
        double l = length;
        if (keys == Keys::kBall) l *= std::pow(random.Uniform(), 0.3);
        if (keys == Keys::kOutlier && j % 97 == 13) l *= 20;
        if (keys == Keys::kNormal) {
          for (double& v : x) v = random.Normal() / std::sqrt(static_cast<double>(dim));
        }
        if (keys == Keys::kOneSided) x[0] = std::abs(x[0]);
        for (int64_t c = 0; c < dim; ++c) {
          double v = l * x[c];
          if (keys == Keys::kOffset) v = 0.9 * v + 30 * length * centres[0][c];
          if (keys == Keys::kClustered) v = 0.3 * v + 0.7 * length * centres[j % 8][c];
          p.k.Set(p.KIndex(b, h, j, c), v);
        }
      }
    }
  }
}

struct ApproxCheck {
  double worst = 0;            // error / allowed
  double worst_certified = 0;  // error / certified bound of polynomial rows, without the rounding of the output
  std::vector<double> idle;    // certified / error of each polynomial row
  int64_t exact_rows = 0;
};

// Every `stride`-th row against the oracle: polynomial rows within their certificate, exact rows within the exact tolerance.
inline ApproxCheck CheckRows(Problem& p, const ApproxReport& report, DType probability_type, int64_t stride, const std::string& what) {
  const AttentionDesc& d = p.desc;
  const DType out_type = d.out_dtype.value_or(d.dtype);
  ApproxCheck check;
  std::vector<double> range(static_cast<size_t>(d.batch * d.kv_heads * d.v_dim));
  for (int64_t b = 0; b < d.batch; ++b) {
    for (int64_t h = 0; h < d.kv_heads; ++h) {
      for (int64_t c = 0; c < d.v_dim; ++c) {
        double low = INFINITY, high = -INFINITY;
        for (int64_t j = 0; j < d.kv_len; ++j) {
          low = std::min(low, p.v.Get(p.VIndex(b, h, j, c)));
          high = std::max(high, p.v.Get(p.VIndex(b, h, j, c)));
        }
        range[(b * d.kv_heads + h) * d.v_dim + c] = high - low;
      }
    }
  }
  for (int64_t row = 0; row < d.batch * d.q_heads * d.q_len; row += stride) {
    const int64_t b = row / (d.q_heads * d.q_len), h = row / d.q_len % d.q_heads, i = row % d.q_len;
    const OracleRow want = ReferenceRow(d, p.operands(), b, h, i);
    const bool exact = report.row_degree[row] < 0;
    check.exact_rows += exact;
    double relative = 0;
    for (int64_t c = 0; c < d.v_dim; ++c) {
      const double got = p.Out(b, h, i, c);
      const double r = range[(b * d.kv_heads + h / (d.q_heads / d.kv_heads)) * d.v_dim + c];
      const double error = std::abs(got - want.out[c]);
      if (exact) {
        if (std::isnan(want.out[c]) && std::isnan(got)) continue;
        const double allowed = ErrorBound(want, c, out_type, probability_type);
        EXPECT_LE(error, allowed + 1e-38) << what << " exact row " << row << " column " << c;
        continue;
      }
      const double rounding = (UnitRoundoff(out_type) + 2 * UnitRoundoff(DType::kF32)) * std::abs(want.out[c]) * 1.01;
      const double allowed = report.row_bound[row] * r + rounding;
      EXPECT_LE(error, allowed + 1e-38) << what << " row " << row << " column " << c << " degree " << int{report.row_degree[row]};
      check.worst = std::max(check.worst, error / (allowed + 1e-38));
      if (r > 0) relative = std::max(relative, std::max(0.0, error - rounding) / r);
    }
    if (exact) continue;
    check.worst_certified = std::max(check.worst_certified, relative / report.row_bound[row]);
    check.idle.push_back(report.row_bound[row] / std::max(relative, 1e-9));
  }
  return check;
}

// Runs and returns the report with its per-row arrays in `bounds` and `degrees`.
inline ApproxReport RunApprox(Problem& p, const ApproxOptions& options, std::vector<float>* bounds, std::vector<int8_t>* degrees,
                              const Parallel& parallel = SerialParallel()) {
  const int64_t rows = p.desc.batch * p.desc.q_heads * p.desc.q_len;
  bounds->assign(static_cast<size_t>(rows), -1);
  degrees->assign(static_cast<size_t>(rows), -2);
  ApproxReport report;
  report.row_bound = bounds->data();
  report.row_degree = degrees->data();
  const Result<ApproxPlan> plan = ApproxPlan::Create(p.desc, options);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (!plan.ok()) return report;
  std::vector<std::byte> workspace(plan->workspace_bytes(), std::byte{0xff});  // NaN where something is read before it is written
  const Status s = plan->Run(p.operands(), workspace, parallel, &report);
  EXPECT_TRUE(s.ok()) << s.message();
  return report;
}

}  // namespace attenio::testing

#endif  // ATTENIO_TESTS_APPROX_APPROX_PROBLEM_H_
