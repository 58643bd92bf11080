#include "approx/running.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "approx/survey.h"

namespace attenio::approx {
namespace {

constexpr int64_t kMerge = 256;
constexpr double kRound = 1 + 1e-6;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Score bounds: a row is certified by the next larger of a geometric sequence, whose polynomials are computed once. 8 steps a
// factor of 2 cost the certificate 9 % a degree; below 1/64 of the planned bound it is small anyway.
constexpr double kSmallestBound = 1e-4, kLargestBound = 14;
// Times 2^40 tokens and the weight e^14 below the largest f32.
constexpr double kLargestValue = 1e20;
constexpr int kStepsPerOctave = 8, kOctavesBelow = 6;

RowView Rows(const float* rows, int64_t dim) { return {.base = rows, .outer = dim}; }

double PlannedBound(const RunningOptions& o) {
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(o.qk_dim)));
  return std::max(kSmallestBound, std::abs(scale) * o.key_radius * o.query_norm * kRound);
}

double Units(const StateLayout& layout, double flushes) {
  const Blocking blocking{.key_panel = kKeyPanel,
                          .panels = kMerge,
                          .partials = static_cast<int64_t>(flushes) / kMerge + 2,
                          .feature_block = kFeatureBlock,
                          .blocks = layout.monomials().blocks(layout.monomials().degree())};
  return RoundingUnits(blocking, layout.monomials().degree()) * 0x1p-24;
}

// For bounds from 1/64 of the planned one (which is among them) up to the largest that max_error admits.
std::vector<ExpPolynomial> Polynomials(const RunningOptions& o, int degree) {
  std::vector<ExpPolynomial> polynomials;
  for (int i = -kOctavesBelow * kStepsPerOctave;; ++i) {
    const double bound = PlannedBound(o) * std::exp2(static_cast<double>(i) / kStepsPerOctave);
    if (bound < kSmallestBound) continue;
    if (!(bound < kLargestBound)) break;
    const ExpPolynomial p = MinimaxExp(bound, degree);
    if (i > 0 && OutputError(p.error) > o.max_error) break;
    polynomials.push_back(p);
  }
  return polynomials;
}

}  // namespace

AlignedFloats::AlignedFloats(int64_t count) : storage_(static_cast<size_t>(count) + 16) {
  const auto at = reinterpret_cast<uintptr_t>(storage_.data());
  data_ = storage_.data() + (64 - at % 64) % 64 / sizeof(float);
}

int Running::ChooseDegree(const RunningOptions& o) {
  const double bound = PlannedBound(o);
  if (!(bound < kLargestBound)) return -1;
  for (int g = 0; g <= o.max_degree && FeatureCount(o.qk_dim, g) <= kMaxFeatures; ++g) {
    const StateLayout layout(o.qk_dim, o.v_dim, g);
    const ExpPolynomial p = MinimaxExp(bound, g);
    // Half a range of distance between the values' middle and zero, keys anywhere in the ball: see RowBound.
    if (OutputError(p.error) + 2 * RowRoundingError(Units(layout, 0), p, bound) <= o.max_error) return g;
  }
  return -1;
}

Running::Running(const RunningOptions& o, int degree)
    : options_(o),
      centre_(o.centre.begin(), o.centre.end()),
      layout_(o.qk_dim, o.v_dim, degree),
      polynomials_(Polynomials(o, degree)),
      value_min_(static_cast<size_t>(o.v_dim), std::numeric_limits<float>::infinity()),
      value_max_(static_cast<size_t>(o.v_dim), -std::numeric_limits<float>::infinity()),
      key_sum_(static_cast<size_t>(o.qk_dim)),
      recent_(layout_.floats(degree)),
      total_(layout_.floats(degree)),
      x_(o.qk_dim * kKeyPanel),
      v_(kKeyPanel * layout_.columns()),
      scratch_(layout_.scratch_floats()),
      query_(o.qk_dim * kQueryPanel),
      coefficients_((degree + 1) * kQueryPanel),
      out_(kQueryPanel * (layout_.columns() + 1)) {
  centre_.resize(static_cast<size_t>(o.qk_dim));
  options_.centre = {};
  scale_ = o.scale.value_or(1 / std::sqrt(static_cast<double>(o.qk_dim)));
  bytes_ = 4 * (2 * layout_.floats(degree) + kKeyPanel * (o.qk_dim + layout_.columns()) + layout_.scratch_floats());
}

Status Running::Add(const float* keys, const float* values, int64_t count) {
  const int64_t d = options_.qk_dim, dv = options_.v_dim;
  for (int64_t j = 0; j < count; ++j) {
    float norm;
    RowNorms(Rows(keys + j * d, d), 1, d, centre_.data(), &norm);
    if (!(norm <= options_.key_radius * kRound + 1e-20)) {
      return Status::Error(Code::kInvalidArgument, "key %lld is %g from the centre, expected at most key_radius %g",
                           static_cast<long long>(j), static_cast<double>(norm), options_.key_radius);
    }
    for (int64_t c = 0; c < dv; ++c) {
      if (std::abs(values[j * dv + c]) <= kLargestValue) continue;
      return Status::Error(Code::kInvalidArgument,
                           "value %lld has the element %g, expected numbers within %g (sums must stay finite)",
                           static_cast<long long>(j), static_cast<double>(values[j * dv + c]), kLargestValue);
    }
  }
  const float inverse = static_cast<float>(1 / std::max(options_.key_radius, 1e-30));
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t c = 0; c < d; ++c) {
      x_.data()[c * kKeyPanel + pending_] = (keys[j * d + c] - centre_[static_cast<size_t>(c)]) * inverse;
      key_sum_[static_cast<size_t>(c)] += keys[j * d + c];
    }
    for (int64_t c = 0; c < dv; ++c) {
      const float v = values[j * dv + c];
      v_.data()[pending_ * layout_.columns() + c] = v;
      value_min_[static_cast<size_t>(c)] = std::min(value_min_[static_cast<size_t>(c)], v);
      value_max_[static_cast<size_t>(c)] = std::max(value_max_[static_cast<size_t>(c)], v);
    }
    ++keys_;
    if (++pending_ == kKeyPanel) Flush();
  }
  return {};
}

void Running::Flush() {
  if (pending_ == 0) return;
  const int degree = layout_.monomials().degree();
  for (int64_t c = 0; c < options_.qk_dim; ++c)
    std::fill(x_.data() + c * kKeyPanel + pending_, x_.data() + (c + 1) * kKeyPanel, 0.0f);
  AddKeys(layout_, {.x = x_.data(),
                    .v = v_.data(),
                    .count = pending_,
                    .degree = degree,
                    .blocks = {0, layout_.monomials().blocks(degree)},
                    .z = recent_.data(),
                    .scratch = scratch_.data()});
  pending_ = 0;
  if (++flushes_ % kMerge != 0) return;
  for (int64_t i = 0; i < layout_.floats(degree); ++i) total_.data()[i] += recent_.data()[i];
  std::fill_n(recent_.data(), layout_.floats(degree), 0.0f);
}

// Values are measured from zero here, not from the middle of their range: rounding counts |v| / (range / 2) times. The mean of
// the keys may lie anywhere: its score bounds the denominator from below (Jensen).
double Running::RowBound(double norm, const ExpPolynomial** p) const {
  const double bound = norm * options_.key_radius * kRound;
  const auto found = std::find_if(polynomials_.begin(), polynomials_.end(),
                                  [&](const ExpPolynomial& each) { return bound <= each.bound; });
  if (found == polynomials_.end()) return kInfinity;
  *p = &*found;
  double square = 0, ratio = 1;
  for (size_t c = 0; c < key_sum_.size(); ++c) {
    const double x = key_sum_[c] / static_cast<double>(keys_) - centre_[c];
    square += x * x;
  }
  for (size_t c = 0; c < value_min_.size(); ++c) {
    const double range = static_cast<double>(value_max_[c]) - value_min_[c];
    const double largest = std::max(std::abs(value_max_[c]), std::abs(value_min_[c]));
    // A constant column comes out constant but for rounding, which is relative to the value then.
    if (range > 0) ratio = std::max(ratio, 2 * largest / range);
  }
  const double rounding =
      RowRoundingError(Units(layout_, static_cast<double>(flushes_)), **p, norm * std::sqrt(square));
  return OutputError((*p)->error) + rounding * (1 + ratio) / 2;
}

// Coefficients and multiplier of a row in `lane` of its panel.
Status Running::PrepareRow(const float* query, int64_t row, int64_t lane, float* multiplier, float* certified) {
  float norm;
  RowNorms(Rows(query, options_.qk_dim), 1, options_.qk_dim, nullptr, &norm);
  // RowNorms rounds up; zero times any scale and radius is zero.
  if (std::all_of(query, query + options_.qk_dim, [](float x) { return x == 0; })) norm = 0;
  const ExpPolynomial* p = nullptr;
  const double bound = RowBound(norm * std::abs(scale_), &p);
  // A multiplier beyond f32 belongs to a query of denormal numbers; for q = 0 any does.
  const double factor = norm > 0 && p != nullptr ? scale_ * std::max(options_.key_radius, 1e-30) / p->bound : 0;
  if (!(bound <= options_.max_error) || std::abs(factor) > static_cast<double>(std::numeric_limits<float>::max())) {
    return Status::Error(Code::kUnsupported,
                         "row %lld with |q| = %g is certified to %g only, max_error is %g: compute it exactly",
                         static_cast<long long>(row), static_cast<double>(norm), bound, options_.max_error);
  }
  if (certified != nullptr) certified[row] = static_cast<float>(bound);
  *multiplier = static_cast<float>(factor);
  for (int k = 0; k <= p->degree; ++k)
    coefficients_.data()[k * kQueryPanel + lane] = static_cast<float>(p->coefficient[static_cast<size_t>(k)]);
  return {};
}

Status Running::Attend(const float* queries, int64_t rows, float* out, float* certified) {
  if (keys_ == 0) return Status::Error(Code::kInvalidArgument, "the state holds no key");
  Flush();
  const int64_t d = options_.qk_dim, dv = options_.v_dim, columns = layout_.columns();
  const int degree = layout_.monomials().degree();
  for (int64_t first = 0; first < rows; first += kQueryPanel) {
    const int64_t count = std::min(kQueryPanel, rows - first);
    float multiplier[kQueryPanel];
    for (int64_t r = 0; r < count; ++r) {
      if (Status s = PrepareRow(queries + (first + r) * d, first + r, r, &multiplier[r], certified); !s.ok()) return s;
    }
    LoadTransposed({.rows = Rows(queries + first * d, d), .count = count, .row_multiplier = multiplier}, d, kQueryPanel,
                   query_.data());
    float* den = out_.data() + kQueryPanel * columns;
    std::fill_n(out_.data(), kQueryPanel * (columns + 1), 0.0f);
    for (float* z : {total_.data(), recent_.data()}) {
      if (z == total_.data() && flushes_ < kMerge) continue;
      ApplyRows(layout_, {.x = query_.data(),
                          .coefficients = coefficients_.data(),
                          .count = count,
                          .degree = degree,
                          .state_degree = degree,
                          .z = z,
                          .out = out_.data(),
                          .den = den,
                          .scratch = scratch_.data()});
    }
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t c = 0; c < dv; ++c) out[(first + r) * dv + c] = out_.data()[r * columns + c] / den[r];
    }
  }
  return {};
}

}  // namespace attenio::approx
