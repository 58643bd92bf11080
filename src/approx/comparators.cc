#include "approx/comparators.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "approx/polynomial.h"
#include "approx/state.h"

namespace attenio::approx {
namespace {

// Standard normal numbers that are the same everywhere (splitmix64, Box-Muller).
class Normals {
 public:
  explicit Normals(uint64_t seed) : state_(seed * 2 + 1) {}
  double Next() {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  double Uniform() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  }
  uint64_t state_;
};

double Dot(const RowView& a, int64_t i, const RowView& b, int64_t j, int64_t dim) {
  double sum = 0;
  for (int64_t c = 0; c < dim; ++c)
    sum += static_cast<double>(a.Row<float>(i)[c * a.element]) * b.Row<float>(j)[c * b.element];
  return sum;
}

void Write(const ComparatorHead& h, int64_t row, const std::vector<double>& numerator, double den) {
  float* out = const_cast<float*>(h.out.Row<float>(row));
  for (int64_t c = 0; c < h.v_dim; ++c)
    out[c * h.out.element] = static_cast<float>(numerator[static_cast<size_t>(c)] / den);
}

// Attention whose weight matrix is left(row) . right(key): one pass over the keys, one over the rows.
template <class Left, class Right>
void LowRank(const ComparatorHead& h, int64_t rank, Left left, Right right) {
  const size_t width = static_cast<size_t>(h.v_dim + 1);
  std::vector<double> state(static_cast<size_t>(rank) * width), feature(static_cast<size_t>(rank)), numerator(width);
  for (int64_t j = 0; j < h.keys; ++j) {
    right(j, feature.data());
    for (int64_t f = 0; f < rank; ++f) {
      double* z = state.data() + static_cast<size_t>(f) * width;
      for (int64_t c = 0; c < h.v_dim; ++c)
        z[c] += feature[static_cast<size_t>(f)] * h.v.Row<float>(j)[c * h.v.element];
      z[h.v_dim] += feature[static_cast<size_t>(f)];
    }
  }
  for (int64_t i = 0; i < h.rows; ++i) {
    left(i, feature.data());
    std::fill(numerator.begin(), numerator.end(), 0.0);
    for (int64_t f = 0; f < rank; ++f) {
      for (size_t c = 0; c < width; ++c)
        numerator[c] += feature[static_cast<size_t>(f)] * state[static_cast<size_t>(f) * width + c];
    }
    Write(h, i, numerator, numerator[width - 1]);
  }
}

// w . x for `features` draws, then exp(w.x - |x|^2 / 2): positive features of e^{x.y}.
void PositiveFeatures(const double* x, int64_t dim, const std::vector<double>& draws, int64_t features, double* out) {
  double square = 0;
  for (int64_t c = 0; c < dim; ++c) square += x[c] * x[c];
  for (int64_t f = 0; f < features; ++f) {
    double dot = -square / 2;
    for (int64_t c = 0; c < dim; ++c) dot += draws[static_cast<size_t>(f * dim + c)] * x[c];
    out[f] = std::exp(dot);
  }
}

std::vector<double> Draws(int64_t count, uint64_t seed) {
  Normals normals(seed);
  std::vector<double> draws(static_cast<size_t>(count));
  for (double& x : draws) x = normals.Next();
  return draws;
}

// Cholesky factor of a positive definite matrix in place (lower triangle); a vanishing pivot drops its landmark.
void Factor(std::vector<double>* matrix, int64_t n) {
  std::vector<double>& a = *matrix;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = j; i < n; ++i) {
      double sum = a[static_cast<size_t>(i * n + j)];
      for (int64_t k = 0; k < j; ++k) sum -= a[static_cast<size_t>(i * n + k)] * a[static_cast<size_t>(j * n + k)];
      if (i == j) {
        a[static_cast<size_t>(i * n + j)] = sum > 1e-13 * a[static_cast<size_t>(i * n + i)] ? std::sqrt(sum) : INFINITY;
      } else {
        a[static_cast<size_t>(i * n + j)] = sum / a[static_cast<size_t>(j * n + j)];
      }
    }
  }
}

// x = L^-1 x
void SolveLower(const std::vector<double>& l, int64_t n, double* x) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < i; ++k) x[i] -= l[static_cast<size_t>(i * n + k)] * x[k];
    x[i] /= l[static_cast<size_t>(i * n + i)];
  }
}

}  // namespace

void RunTaylor(const ComparatorHead& h, int degree) {
  // Taylor's p(q.k) as features: e^x term by term, x^k / k!.
  const StateLayout layout(h.qk_dim, h.v_dim, degree);
  const auto aligned = [](std::vector<float>* storage, int64_t count) {
    storage->assign(static_cast<size_t>(count) + 16, 0.0f);
    const auto at = reinterpret_cast<uintptr_t>(storage->data());
    return storage->data() + (64 - at % 64) % 64 / sizeof(float);
  };
  std::vector<float> storage[5];
  float* z = aligned(&storage[0], layout.floats(degree));
  float* x = aligned(&storage[1], h.qk_dim * kKeyPanel);
  float* v = aligned(&storage[2], kKeyPanel * layout.columns());
  float* scratch = aligned(&storage[3], layout.scratch_floats());
  float* coefficients = aligned(&storage[4], (degree + 2) * kQueryPanel);
  float* den = coefficients + (degree + 1) * kQueryPanel;
  for (int64_t first = 0; first < h.keys; first += kKeyPanel) {
    const int64_t count = std::min(kKeyPanel, h.keys - first);
    LoadTransposed({.rows = h.k.From(first), .count = count}, h.qk_dim, kKeyPanel, x);
    LoadRows({.rows = h.v.From(first), .count = count}, h.v_dim, layout.columns(), kKeyPanel, v);
    AddKeys(layout, {.x = x,
                     .v = v,
                     .count = count,
                     .degree = degree,
                     .blocks = {0, layout.monomials().blocks(degree)},
                     .z = z,
                     .scratch = scratch});
  }
  const ExpPolynomial p = TaylorExp(1, degree);
  for (int k = 0; k <= degree; ++k)
    std::fill_n(coefficients + k * kQueryPanel, kQueryPanel, static_cast<float>(p.coefficient[k]));
  for (int64_t first = 0; first < h.rows; first += kQueryPanel) {
    const int64_t count = std::min(kQueryPanel, h.rows - first);
    LoadTransposed({.rows = h.q.From(first), .count = count, .multiplier = static_cast<float>(h.scale)}, h.qk_dim,
                   kQueryPanel, x);
    std::fill_n(v, kQueryPanel * layout.columns(), 0.0f);
    std::fill_n(den, kQueryPanel, 0.0f);
    ApplyRows(layout, {.x = x,
                       .coefficients = coefficients,
                       .count = count,
                       .degree = degree,
                       .state_degree = degree,
                       .z = z,
                       .out = v,
                       .den = den,
                       .scratch = scratch});
    for (int64_t r = 0; r < count; ++r) {
      const float* row = v + r * layout.columns();
      Write(h, first + r, std::vector<double>(row, row + h.v_dim), den[r]);
    }
  }
}

void RunPerformer(const ComparatorHead& h, const ComparatorOptions& o) {
  const std::vector<double> draws = Draws(o.features * h.qk_dim, o.seed);
  std::vector<double> x(static_cast<size_t>(h.qk_dim));
  const auto features = [&](const RowView& rows, double factor) {
    return [&, factor](int64_t r, double* out) {
      for (int64_t c = 0; c < h.qk_dim; ++c) x[static_cast<size_t>(c)] = factor * rows.Row<float>(r)[c * rows.element];
      PositiveFeatures(x.data(), h.qk_dim, draws, o.features, out);
    };
  };
  const double root = std::sqrt(std::abs(h.scale));
  LowRank(h, o.features, features(h.q, h.scale < 0 ? -root : root), features(h.k, root));
}

void RunNystrom(const ComparatorHead& h, int64_t landmarks) {
  const int64_t n = std::min(landmarks, h.keys);
  const double scale = std::abs(h.scale);
  const auto landmark = [&](int64_t i) { return i * h.keys / n; };
  std::vector<double> factor(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j)
      factor[static_cast<size_t>(i * n + j)] = std::exp(scale * Dot(h.k, landmark(i), h.k, landmark(j), h.qk_dim));
  }
  Factor(&factor, n);
  const auto side = [&](const RowView& rows, double s) {
    return [&, s](int64_t r, double* out) {
      for (int64_t i = 0; i < n; ++i) out[i] = std::exp(s * Dot(rows, r, h.k, landmark(i), h.qk_dim));
      SolveLower(factor, n, out);
    };
  };
  LowRank(h, n, side(h.q, h.scale), side(h.k, scale));
}

void RunWindow(const ComparatorHead& h, const ComparatorOptions& o) {
  std::vector<double> numerator(static_cast<size_t>(h.v_dim));
  for (int64_t i = 0; i < h.rows; ++i) {
    const int64_t end = std::clamp<int64_t>(i + h.offset + 1, 0, h.keys);
    const int64_t begin = std::max<int64_t>(0, end - o.features), sinks = std::min(o.sinks, begin);
    std::fill(numerator.begin(), numerator.end(), 0.0);
    double top = -INFINITY, den = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < end; ++j) {
        if (j == sinks) j = std::max(j, begin);
        if (j >= end) break;
        const double s = h.scale * Dot(h.q, i, h.k, j, h.qk_dim);
        if (pass == 0) {
          top = std::max(top, s);
          continue;
        }
        const double w = std::exp(s - top);
        den += w;
        for (int64_t c = 0; c < h.v_dim; ++c)
          numerator[static_cast<size_t>(c)] += w * h.v.Row<float>(j)[c * h.v.element];
      }
    }
    Write(h, i, numerator, den > 0 ? den : 1);
  }
}

double PerformerEstimate(const float* x, const float* y, int64_t dim, int64_t features, uint64_t seed) {
  const std::vector<double> draws = Draws(features * dim, seed), a(x, x + dim), b(y, y + dim);
  std::vector<double> fa(static_cast<size_t>(features)), fb(static_cast<size_t>(features));
  PositiveFeatures(a.data(), dim, draws, features, fa.data());
  PositiveFeatures(b.data(), dim, draws, features, fb.data());
  double sum = 0;
  for (size_t f = 0; f < fa.size(); ++f) sum += fa[f] * fb[f];
  return sum / static_cast<double>(features);
}

double PerformerVariance(const float* x, const float* y, int64_t dim, int64_t features) {
  double sum = 0, dot = 0;
  for (int64_t c = 0; c < dim; ++c) {
    sum += (static_cast<double>(x[c]) + y[c]) * (static_cast<double>(x[c]) + y[c]);
    dot += static_cast<double>(x[c]) * y[c];
  }
  return std::exp(sum + 2 * dot) * (1 - std::exp(-sum)) / static_cast<double>(features);
}

}  // namespace attenio::approx
