#include "approx/polynomial.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

namespace attenio::approx {
namespace {

using Coefficients = std::array<double, kMaxDegree + 1>;

constexpr double kPi = std::numbers::pi;
constexpr int kPointsPerLobe = 64;
// The maximum of each lobe is found to 1e-6 of the distance between two grid points; this covers what is left.
constexpr double kErrorMargin = 1 + 1e-6;

double Chebyshev(const Coefficients& a, int degree, double t) {
  double b1 = 0, b2 = 0;
  for (int k = degree; k >= 1; --k) {
    const double b = 2 * t * b1 - b2 + a[k];
    b2 = b1;
    b1 = b;
  }
  return t * b1 - b2 + a[0];
}

// Chebyshev series in t to powers of t.
Coefficients ToPowers(const Coefficients& a, int degree) {
  Coefficients previous{}, current{}, out{};
  previous[0] = 1;
  current[1] = 1;
  out[0] = a[0];
  for (int k = 1; k <= degree; ++k) {
    for (int i = 0; i <= k; ++i) out[i] += a[k] * current[i];
    Coefficients next{};
    for (int i = 0; i <= k && i < kMaxDegree; ++i) next[i + 1] = 2 * current[i];
    for (int i = 0; i <= k; ++i) next[i] -= previous[i];
    previous = current;
    current = next;
  }
  return out;
}

// Gaussian elimination with pivoting of a square system held in rows of n + 1 (right-hand side last).
std::vector<double> SolveLinear(std::vector<std::vector<double>> rows) {
  const size_t n = rows.size();
  for (size_t c = 0; c < n; ++c) {
    size_t pivot = c;
    for (size_t i = c + 1; i < n; ++i) {
      if (std::abs(rows[i][c]) > std::abs(rows[pivot][c])) pivot = i;
    }
    std::swap(rows[c], rows[pivot]);
    for (size_t i = c + 1; i < n; ++i) {
      const double f = rows[i][c] / rows[c][c];
      for (size_t j = c; j <= n; ++j) rows[i][j] -= f * rows[c][j];
    }
  }
  std::vector<double> x(n);
  for (size_t i = n; i-- > 0;) {
    double sum = rows[i][n];
    for (size_t j = i + 1; j < n; ++j) sum -= rows[i][j] * x[j];
    x[i] = sum / rows[i][i];
  }
  return x;
}

std::vector<double> ChebyshevRow(int degree, double t, double weight) {
  std::vector<double> row(degree + 1);
  double previous = 1, current = t;
  for (int k = 0; k <= degree; ++k) {
    row[k] = previous * weight;
    const double next = 2 * t * current - previous;
    previous = current;
    current = next;
  }
  return row;
}

// Points t = cos(phase) that follow the oscillation of the relative error, with e^{-B t} there.
struct Grid {
  std::vector<double> t, decay;

  Grid(double bound, int degree) {
    const int points = kPointsPerLobe * (degree + 2);
    for (int i = 0; i <= points; ++i) {
      t.push_back(-std::cos(kPi * i / points));
      decay.push_back(std::exp(-bound * t.back()));
    }
  }

  double Error(const Coefficients& a, int degree, size_t i) const { return Chebyshev(a, degree, t[i]) * decay[i] - 1; }

  double MaxError(const Coefficients& a, int degree) const {
    double max = 0;
    for (size_t i = 0; i < t.size(); ++i) max = std::max(max, std::abs(Error(a, degree, i)));
    return max;
  }

  // Indices of the largest error of every run of equal sign, cut to degree + 2 from the ends.
  std::vector<size_t> Extrema(const Coefficients& a, int degree) const {
    std::vector<std::pair<size_t, double>> extrema;
    for (size_t i = 0; i < t.size(); ++i) {
      const double e = Error(a, degree, i);
      if (extrema.empty() || (extrema.back().second >= 0) != (e >= 0)) {
        extrema.emplace_back(i, e);
      } else if (std::abs(e) > std::abs(extrema.back().second)) {
        extrema.back() = {i, e};
      }
    }
    while (extrema.size() > static_cast<size_t>(degree) + 2) {
      if (std::abs(extrema.front().second) < std::abs(extrema.back().second)) {
        extrema.erase(extrema.begin());
      } else {
        extrema.pop_back();
      }
    }
    std::vector<size_t> indices;
    for (const auto& e : extrema) indices.push_back(e.first);
    return indices;
  }
};

Coefficients Head(const std::vector<double>& solution, int degree) {
  Coefficients a{};
  std::copy_n(solution.begin(), degree + 1, a.begin());
  return a;
}

std::vector<double> NearMinimaxNodes(double bound, int degree) {
  const int n = degree + 1;
  // The mapping is monotone only for n > bound; beyond, a smaller shift still gives distinct nodes.
  const double shift = std::min(bound, 0.95 * (n + 1)) * n / (n + 1);
  std::vector<double> nodes;
  for (int k = 0; k < n; ++k) {
    double low = 0, high = kPi;
    for (int step = 0; step < 60; ++step) {
      const double mid = (low + high) / 2;
      (n * mid - shift * std::sin(mid) < (k + 0.5) * kPi ? low : high) = mid;
    }
    nodes.push_back(std::cos((low + high) / 2));
  }
  return nodes;
}

Coefficients Interpolate(double bound, int degree) {
  std::vector<std::vector<double>> rows;
  for (double t : NearMinimaxNodes(bound, degree)) {
    rows.push_back(ChebyshevRow(degree, t, std::exp(-bound * t)));
    rows.back().push_back(1);
  }
  return Head(SolveLinear(std::move(rows)), degree);
}

// The largest |p e^-x - 1|: the best points of the grid, each refined by golden-section search between its neighbours.
double CertifiedError(const Grid& grid, double bound, int degree, const Coefficients& a) {
  const auto magnitude = [&](double t) { return std::abs(Chebyshev(a, degree, t) * std::exp(-bound * t) - 1); };
  const double golden = (std::sqrt(5.0) - 1) / 2;
  const size_t last = grid.t.size() - 1;
  double max = 0;
  for (size_t i = 0; i <= last; ++i) {
    const double here = std::abs(grid.Error(a, degree, i));
    const bool peak = (i == 0 || here >= std::abs(grid.Error(a, degree, i - 1))) &&
                      (i == last || here >= std::abs(grid.Error(a, degree, i + 1)));
    if (!peak) continue;
    double low = grid.t[i == 0 ? 0 : i - 1], high = grid.t[i == last ? last : i + 1];
    for (int step = 0; step < 30; ++step) {
      const double left = high - (high - low) * golden, right = low + (high - low) * golden;
      if (magnitude(left) > magnitude(right)) {
        high = right;
      } else {
        low = left;
      }
    }
    max = std::max({max, here, magnitude((low + high) / 2)});
  }
  // 1e-14: rounding of the evaluation in double, so that a tiny error is still an upper bound.
  return max * kErrorMargin + 1e-14;
}

ExpPolynomial Finish(const Grid& grid, double bound, int degree, const Coefficients& a) {
  return {.degree = degree,
          .bound = bound,
          .error = CertifiedError(grid, bound, degree, a),
          .coefficient = ToPowers(a, degree)};
}

}  // namespace

double ExpPolynomial::operator()(double x) const {
  double sum = 0;
  for (int k = degree; k >= 0; --k) sum = sum * (x / bound) + coefficient[k];
  return sum;
}

double ExpPolynomial::AbsoluteSum() const {
  double sum = 0;
  for (int k = 0; k <= degree; ++k) sum += std::abs(coefficient[k]);
  return sum;
}

ExpPolynomial NearMinimaxExp(double bound, int degree) {
  return Finish(Grid(bound, degree), bound, degree, Interpolate(bound, degree));
}

ExpPolynomial MinimaxExp(double bound, int degree) {
  const Grid grid(bound, degree);
  Coefficients best = Interpolate(bound, degree);
  double best_error = grid.MaxError(best, degree);
  Coefficients a = best;
  for (int iteration = 0; iteration < 20; ++iteration) {
    const std::vector<size_t> extrema = grid.Extrema(a, degree);
    if (extrema.size() < static_cast<size_t>(degree) + 2) break;  // rounding hides the oscillation: as good as it gets
    std::vector<std::vector<double>> rows;
    for (size_t i = 0; i < extrema.size(); ++i) {
      rows.push_back(ChebyshevRow(degree, grid.t[extrema[i]], grid.decay[extrema[i]]));
      rows.back().push_back(i % 2 == 0 ? 1 : -1);
      rows.back().push_back(1);
    }
    const std::vector<double> solution = SolveLinear(std::move(rows));
    a = Head(solution, degree);
    const double error = grid.MaxError(a, degree);
    if (error < best_error) {
      best = a;
      best_error = error;
    }
    if (error <= std::abs(solution.back()) * (1 + 1e-4)) break;
  }
  return Finish(grid, bound, degree, best);
}

ExpPolynomial TaylorExp(double bound, int degree) {
  ExpPolynomial p{.degree = degree, .bound = bound};
  double term = 1;
  for (int k = 0; k <= degree; ++k) {
    p.coefficient[k] = term;
    term *= bound / (k + 1);
  }
  p.error = std::max(std::abs(p(-bound) * std::exp(bound) - 1), std::abs(p(bound) * std::exp(-bound) - 1)) + 1e-14;
  return p;
}

double MinimaxErrorEstimate(double bound, int degree) {
  return 2 *
         std::exp((degree + 1) * std::log(bound / 2) - std::lgamma(degree + 2.0) - bound * bound / (4 * (degree + 2)));
}

int SmallestDegree(double bound, double error) {
  for (int g = 0; g <= kMaxDegree; ++g) {
    // The estimate is below the true error while that is small: skip degrees that cannot do.
    if (error < 0.05 && MinimaxErrorEstimate(bound, g) > 1.05 * error && g + 1 < kMaxDegree) continue;
    if (MinimaxExp(bound, g).error <= error) return g;
  }
  return -1;
}

int SmallestTaylorDegree(double bound, double error) {
  for (int g = 0; g <= kMaxDegree; ++g) {
    if (TaylorExp(bound, g).error <= error) return g;
  }
  return -1;
}

double OutputError(double weight_error) {
  if (weight_error >= 1) return 1;
  if (weight_error <= 0) return 0;
  // (1 - sqrt(1 - e^2)) / e without cancellation.
  return weight_error / (1 + std::sqrt(1 - weight_error * weight_error));
}

double WeightError(double output_error) {
  if (output_error >= 1) return 1;
  return output_error <= 0 ? 0 : 2 * output_error / (1 + output_error * output_error);
}

}  // namespace attenio::approx
