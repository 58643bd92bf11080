// Polynomials that replace exp on [-B, B] with the smallest possible relative error.
#ifndef ATTENIO_SRC_APPROX_POLYNOMIAL_H_
#define ATTENIO_SRC_APPROX_POLYNOMIAL_H_

#include <array>

namespace attenio::approx {

// Degrees beyond this never pay: the state has C(d+g, g) rows.
inline constexpr int kMaxDegree = 20;

// p(x) = sum_k coefficient[k] (x / bound)^k, with |p(x) e^-x - 1| <= error for |x| <= bound. The normalised argument keeps
// every coefficient near bound^k / k!, whatever the interval.
struct ExpPolynomial {
  int degree = 0;
  double bound = 0;
  double error = 0;  // certified: at least the true maximum, above it by about 1e-6
  std::array<double, kMaxDegree + 1> coefficient{};

  double operator()(double x) const;
  // sum_k |coefficient[k]|: what the sum of absolute values of all terms of p can reach on [-bound, bound].
  double AbsoluteSum() const;
};

// The relative-minimax polynomial by the Remez exchange; degree 0..kMaxDegree, bound > 0 and at most 16.
ExpPolynomial MinimaxExp(double bound, int degree);

// The polynomial through e^x at the nodes B cos(theta_k), (g+1) theta - B (g+1)/(g+2) sin theta = (k + 1/2) pi: within 7 % of
// minimax for g + 1 > B without iterating. Where MinimaxExp starts.
ExpPolynomial NearMinimaxExp(double bound, int degree);

// Taylor's polynomial with its relative error on [-bound, bound] (the error is at an end): the comparator.
ExpPolynomial TaylorExp(double bound, int degree);

// 2 (B/2)^{g+1} / (g+1)! exp(-B^2 / (4 (g+2))): 0.94-0.99 of the minimax error while that is below 0.05.
double MinimaxErrorEstimate(double bound, int degree);

// The smallest degree whose minimax (Taylor) error on [-bound, bound] is at most `error`; -1 when kMaxDegree is not enough.
int SmallestDegree(double bound, double error);
int SmallestTaylorDegree(double bound, double error);

// |O' - O| <= OutputError(eps) (vmax - vmin) per value column, when every weight of a row is right to the factor 1 +- eps:
// f(eps) / 2 with f(eps) = 2 (1 - sqrt(1 - eps^2)) / eps. 1 for eps >= 1.
double OutputError(double weight_error);
// Its inverse: the weight error that an output error allows, 0..1.
double WeightError(double output_error);

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_POLYNOMIAL_H_
