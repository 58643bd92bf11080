#include "approx/choose.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/features.h"

namespace attenio::approx {
namespace {

// Fraction of the FMA peak of the state and apply loops: 0.9 at 64 columns, 0.65 at 16.
constexpr double kProductFraction = 0.85;
// Extra products per feature and row for making the feature and its sum, in columns.
constexpr double kFeatureColumns = 4;
// One exponential of an outlier on the scalar path.
constexpr double kScalarExp = 6e-9;
// Survey and norms: about 3 operations per element at a fraction of the peak.
constexpr double kSurveyFlops = 24;

}  // namespace

Costs PredictCosts(const CostInputs& in) {
  Costs costs;
  const double rate = kProductFraction * in.fma_flops;
  const double columns = static_cast<double>(RoundUp(in.v_dim, kColumnQuantum)) + kFeatureColumns;
  for (int64_t r : in.features) {
    costs.key.push_back(2 * static_cast<double>(r) * columns / rate);
    costs.row.push_back(costs.key.back());
  }
  const double dims = static_cast<double>(in.qk_dim + in.v_dim);
  costs.exact_row = 2 * in.keys_per_row * dims / in.exact_flops;
  costs.outlier = 2 * dims / rate + kScalarExp;
  costs.fixed = kSurveyFlops * dims * static_cast<double>(in.keys) / in.fma_flops;
  return costs;
}

int FindClass(const std::vector<ScoreClass>& classes, double bound, int degree) {
  const auto it = std::lower_bound(classes.begin(), classes.end(), bound,
                                   [](const ScoreClass& c, double b) { return c.p.bound < b; });
  return it == classes.end() || it->p.degree > degree ? -1 : static_cast<int>(it - classes.begin());
}

Choice Choose(const ChooseInputs& in) {
  const std::vector<ScoreClass>& classes = *in.classes;
  const double sample = static_cast<double>(std::max<size_t>(1, in.query_norms.size()));
  const double scale = static_cast<double>(in.rows) / sample;
  Choice best;
  best.exact_seconds = static_cast<double>(in.rows) * in.costs->exact_row;
  best.seconds = in.always ? 1e300 : best.exact_seconds;
  double best_exact = 1e300;
  for (size_t outliers = 0; outliers < in.key_norms.size(); outliers = outliers == 0 ? 1 : outliers * 2) {
    const double radius = in.key_norms[outliers];
    // Walk up the degrees; rows below their largest bound are covered.
    double covered = 0, rows_seconds = 0;
    for (size_t c = 0; c < classes.size(); ++c) {
      if (c + 1 < classes.size() && classes[c + 1].p.degree == classes[c].p.degree) continue;
      const int degree = classes[c].p.degree;
      const double reach = radius > 0 ? classes[c].p.bound / radius : 1e300;
      const auto end = std::upper_bound(in.query_norms.begin(), in.query_norms.end(), reach,
                                        [](double b, float n) { return b < n; });
      const double rows = scale * static_cast<double>(end - in.query_norms.begin());
      rows_seconds += (rows - covered) * in.costs->row[degree];
      covered = rows;
      const double exact_rows = static_cast<double>(in.rows) - covered;
      if (covered <= 0 || exact_rows > static_cast<double>(in.max_exact_rows)) continue;
      const double seconds = in.costs->fixed + static_cast<double>(in.keys) * in.costs->key[degree] + rows_seconds +
                             exact_rows * in.costs->exact_row +
                             covered * static_cast<double>(outliers) * in.costs->outlier;
      // kPolynomial: as few exact rows as can be, then time.
      if (in.always && exact_rows > best_exact) continue;
      if (seconds < best.seconds || (in.always && exact_rows < best_exact)) {
        best_exact = exact_rows;
        best.seconds = seconds;
        best.degree = degree;
        best.outliers = static_cast<int64_t>(outliers);
        best.radius = radius;
      }
    }
  }
  if (best.degree < 0) best.seconds = best.exact_seconds;
  return best;
}

}  // namespace attenio::approx
