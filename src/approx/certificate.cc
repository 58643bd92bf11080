#include "approx/certificate.h"

#include <algorithm>
#include <cmath>

namespace attenio::approx {
namespace {

// Beyond this e^bound times any rounding unit is no certificate.
constexpr double kLargestBound = 14;
constexpr double kSmallestBound = 1e-4;
// Classes per degree: a row's certificate is that of the smallest class that holds it, at most 1/4 of the way up.
constexpr int kClassesPerDegree = 4;

double Certified(const ExpPolynomial& p, double unit) {
  return OutputError(p.error) + RowRoundingError(unit, p, kDrift);
}

// The largest bound that the degree certifies for max_error (certified error grows with the bound), 0 if none.
double LargestBound(int degree, double unit, double max_error) {
  const auto meets = [&](double bound) { return Certified(MinimaxExp(bound, degree), unit) <= max_error; };
  double low = kSmallestBound, high = kLargestBound;
  if (!meets(low)) return 0;
  // 12 steps in the logarithm: within 0.3 %.
  for (int step = 0; step < 12; ++step) {
    const double mid = std::sqrt(low * high);
    (meets(mid) ? low : high) = mid;
  }
  return low;
}

}  // namespace

double CancellationError(double unit, double bound) { return unit * std::exp(2 * bound); }

double RoundingUnits(const Blocking& b, int degree) {
  return static_cast<double>(b.key_panel + b.panels + b.partials + b.feature_block + b.blocks) + 6.0 * degree + 8;
}

double RowRoundingError(double unit, const ExpPolynomial& p, double drift) {
  if (p.error >= 1) return 1;
  const double relative = unit * p.AbsoluteSum() * std::exp(drift) / (1 - p.error);
  return relative < 0.5 ? relative / (1 - relative) : 1;
}

std::vector<ScoreClass> ScoreClasses(double max_error, const std::vector<double>& unit) {
  std::vector<ScoreClass> classes;
  double below = 0;
  for (int g = 0; g < static_cast<int>(unit.size()); ++g) {
    const double most = LargestBound(g, unit[g], max_error);
    if (most <= below) continue;
    const double from = std::max(below, most / 4);
    for (int i = 1; i <= kClassesPerDegree; ++i) {
      const double bound =
          i == kClassesPerDegree ? most : from * std::pow(most / from, static_cast<double>(i) / kClassesPerDegree);
      const ExpPolynomial p = MinimaxExp(bound, g);
      classes.push_back({p, Certified(p, unit[g])});
    }
    below = most;
  }
  return classes;
}

}  // namespace attenio::approx
