#include "approx/polynomial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace attenio::approx {
namespace {

struct Pinned {
  double bound;
  int degree;
  double error;  // two digits, computed independently by a Remez exchange in Python
};

TEST(Polynomial, MinimaxErrorsArePinned) {
  const Pinned table[] = {
      {0.5, 1, 6.2e-2}, {0.5, 2, 5.1e-3}, {0.5, 3, 3.2e-4}, {0.5, 4, 1.6e-5}, {0.5, 5, 6.7e-7}, {1, 1, 2.3e-1},
      {1, 2, 4.0e-2},   {1, 3, 5.0e-3},   {1, 4, 5.0e-4},   {1, 5, 4.2e-5},   {1, 6, 3.0e-6},   {2, 1, 6.8e-1},
      {2, 2, 2.7e-1},   {2, 3, 7.1e-2},   {2, 4, 1.4e-2},   {2, 5, 2.5e-3},   {2, 6, 3.6e-4},   {2, 8, 5.0e-6},
      {3, 1, .92},      {3, 2, .64},      {3, 3, .29},      {3, 4, 9.2e-2},   {3, 5, 2.4e-2},   {3, 6, 5.3e-3},
      {3, 8, 1.7e-4},   {3, 10, 3.6e-6},  {4, 1, .99},      {4, 2, .89},      {4, 3, .62},      {4, 4, .30},
      {4, 5, .11},      {4, 6, 3.3e-2},   {4, 8, 2.0e-3},   {4, 10, 7.5e-5},  {6, 1, 1},        {6, 2, .99},
      {6, 3, .96},      {6, 4, .84},      {6, 5, .58},      {6, 6, .31},      {6, 8, 4.7e-2},   {6, 10, 4.4e-3},
  };
  for (const Pinned& p : table) {
    EXPECT_NEAR(MinimaxExp(p.bound, p.degree).error, p.error, 0.04 * p.error) << p.bound << " " << p.degree;
  }
}

TEST(Polynomial, EquioscillatesHenceIsOptimal) {
  // de la Vallee Poussin: g + 2 alternating errors of at least E (1 - delta) prove that no polynomial does better than that.
  for (double bound : {0.5, 1.0, 2.0, 4.0, 6.0}) {
    for (int degree = 1; degree <= 8; ++degree) {
      const ExpPolynomial p = MinimaxExp(bound, degree);
      if (p.error < 1e-9) continue;
      int alternations = 0;
      double sign = 0;
      for (int i = 0; i <= 20000; ++i) {
        const double x = -bound * std::cos(3.14159265358979 * i / 20000);
        const double e = p(x) * std::exp(-x) - 1;
        if (std::abs(e) >= 0.997 * p.error && e * sign <= 0) {
          ++alternations;
          sign = e;
        }
      }
      EXPECT_GE(alternations, degree + 2) << bound << " " << degree;
    }
  }
}

TEST(Polynomial, ErrorIsAnUpperBoundOnRandomPoints) {
  std::mt19937_64 random(7);
  for (double bound : {0.01, 0.3, 1.0, 3.0, 7.0}) {
    for (int degree = 0; degree <= 12; ++degree) {
      for (const ExpPolynomial& p : {MinimaxExp(bound, degree), NearMinimaxExp(bound, degree), TaylorExp(bound, degree)}) {
        std::uniform_real_distribution<double> uniform(-bound, bound);
        for (int i = 0; i < 2000; ++i) {
          const double x = uniform(random);
          ASSERT_LE(std::abs(p(x) * std::exp(-x) - 1), p.error) << bound << " " << degree << " " << x;
        }
      }
    }
  }
}

TEST(Polynomial, NearMinimaxNodesAreWithinSevenPercent) {
  const std::pair<double, int> cases[] = {{1, 2}, {1, 4}, {2, 4}, {2, 6}, {3, 6}, {4, 8}, {5, 10}, {6, 12}};
  for (const auto& [bound, degree] : cases) {
    EXPECT_LE(NearMinimaxExp(bound, degree).error, 1.07 * MinimaxExp(bound, degree).error) << bound << " " << degree;
  }
}

TEST(Polynomial, EstimateIsClose) {
  for (double bound : {0.5, 1.0, 2.0, 3.0, 4.0}) {
    for (int degree = 1; degree <= 10; ++degree) {
      const double error = MinimaxExp(bound, degree).error;
      if (error > 0.05 || error < 1e-10) continue;
      const double ratio = MinimaxErrorEstimate(bound, degree) / error;
      EXPECT_GT(ratio, 0.94) << bound << " " << degree;
      EXPECT_LT(ratio, 1.0) << bound << " " << degree;
    }
  }
}

TEST(Polynomial, SmallestDegreesArePinned) {
  struct Row {
    double error, bound;
    int minimax, taylor;
  };
  for (const Row& r : {Row{1e-1, 1, 2, 3}, Row{1e-1, 2, 3, 7}, Row{1e-1, 4, 6, 14}, Row{1e-2, 1, 3, 5}, Row{1e-2, 2, 5, 8},
                       Row{1e-2, 4, 7, 15}, Row{1e-3, 1, 4, 6}, Row{1e-3, 2, 6, 10}}) {
    EXPECT_EQ(SmallestDegree(r.bound, r.error), r.minimax) << r.error << " " << r.bound;
    EXPECT_EQ(SmallestTaylorDegree(r.bound, r.error), r.taylor) << r.error << " " << r.bound;
  }
  EXPECT_EQ(SmallestDegree(4, 1e-3), 9);
  EXPECT_EQ(SmallestTaylorDegree(4, 1e-3), 17);
  EXPECT_EQ(SmallestDegree(16, 1e-3), -1);
}

TEST(Polynomial, TaylorTwoIsOffByMoreThanAThirdAtOne) {
  EXPECT_NEAR(TaylorExp(1, 2).error, 0.36, 0.005);  // (1 - 1 + 1/2) e - 1
}

TEST(Polynomial, EvenDegreesStayPositiveFarOutside) {
  for (double bound : {1.0, 2.0, 4.0, 6.0}) {
    for (int degree : {2, 4, 6, 8}) {
      const ExpPolynomial p = MinimaxExp(bound, degree);
      for (int i = -2000; i <= 2000; ++i) ASSERT_GT(p(bound * i / 200), 0) << bound << " " << degree << " " << i;
    }
  }
}

TEST(Polynomial, OutputErrorIsAttainedAndNeverExceeded) {
  const double eps = 0.2;
  EXPECT_NEAR(2 * OutputError(eps), 2 * (1 - std::sqrt(1 - eps * eps)) / eps, 1e-15);
  EXPECT_NEAR(2 * OutputError(1e-3), 1e-3 + 1e-9 / 4, 1e-15);
  EXPECT_NEAR(WeightError(OutputError(eps)), eps, 1e-15);
  // The worst case: values -1 and 1 (range 2), true weights balanced so that the error peaks.
  double worst = 0;
  for (int i = 1; i < 4000; ++i) {
    const double a = i / 4000.0, b = 1 - a;
    const double exact = a - b;
    const double moved = (a * (1 + eps) - b * (1 - eps)) / (a * (1 + eps) + b * (1 - eps));
    worst = std::max(worst, std::abs(moved - exact));
  }
  EXPECT_LE(worst, 2 * OutputError(eps) + 1e-12);
  EXPECT_GE(worst, 1.999 * OutputError(eps));
}

}  // namespace
}  // namespace attenio::approx
