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

RowView Rows(const float* rows, int64_t dim) { return {.base = rows, .outer = dim}; }

}  // namespace

AlignedFloats::AlignedFloats(int64_t count) : storage_(static_cast<size_t>(count) + 16) {
  const auto at = reinterpret_cast<uintptr_t>(storage_.data());
  data_ = storage_.data() + (64 - at % 64) % 64 / sizeof(float);
}

double Running::Units(const StateLayout& layout, double flushes) {
  const Blocking blocking{.key_panel = kKeyPanel, .panels = kMerge, .partials = static_cast<int64_t>(flushes) / kMerge + 2,
                          .feature_block = kFeatureBlock, .blocks = layout.monomials().blocks(layout.monomials().degree())};
  return RoundingUnits(blocking, layout.monomials().degree()) * 0x1p-24;
}

int Running::ChooseDegree(const RunningOptions& o) {
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(o.qk_dim)));
  const double bound = std::max(1e-4, std::abs(scale) * o.key_radius * o.query_norm * kRound);
  if (!(bound < 14)) return -1;
  for (int g = 0; g <= o.max_degree && FeatureCount(o.qk_dim, g) <= 100000; ++g) {
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
      return Status::Error(Code::kInvalidArgument, "key %lld is %g from the centre, expected at most key_radius %g", static_cast<long long>(j),
                           static_cast<double>(norm), options_.key_radius);
    }
    for (int64_t c = 0; c < dv; ++c) {
      if (!std::isfinite(values[j * dv + c])) return Status::Error(Code::kInvalidArgument, "value %lld is not finite", static_cast<long long>(j));
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
  for (int64_t c = 0; c < options_.qk_dim; ++c) std::fill(x_.data() + c * kKeyPanel + pending_, x_.data() + (c + 1) * kKeyPanel, 0.0f);
  AddKeys(layout_, {.x = x_.data(), .v = v_.data(), .count = pending_, .degree = degree,
                    .blocks = {0, layout_.monomials().blocks(degree)}, .z = recent_.data(), .scratch = scratch_.data()});
  pending_ = 0;
  if (++flushes_ % kMerge != 0) return;
  for (int64_t i = 0; i < layout_.floats(degree); ++i) total_.data()[i] += recent_.data()[i];
  std::fill_n(recent_.data(), layout_.floats(degree), 0.0f);
}

// Values are measured from zero here, not from the middle of their range: rounding counts |v| / (range / 2) times. The mean of
// the keys may lie anywhere: its score bounds the denominator from below (Jensen).
double Running::RowBound(double norm, ExpPolynomial* p) const {
  const double bound = std::max(1e-4, norm * options_.key_radius * kRound);
  if (!(bound < 14)) return kInfinity;
  *p = MinimaxExp(bound, layout_.monomials().degree());
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
  const double rounding = RowRoundingError(Units(layout_, static_cast<double>(flushes_)), *p, norm * std::sqrt(square));
  return OutputError(p->error) + rounding * (1 + ratio) / 2;
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
      float norm;
      RowNorms(Rows(queries + (first + r) * d, d), 1, d, nullptr, &norm);
      ExpPolynomial p;
      const double bound = RowBound(norm * std::abs(scale_), &p);
      if (!(bound <= options_.max_error)) {
        return Status::Error(Code::kUnsupported, "row %lld with |q| = %g is certified to %g only, max_error is %g: compute it exactly",
                             static_cast<long long>(first + r), static_cast<double>(norm), bound, options_.max_error);
      }
      if (certified != nullptr) certified[first + r] = static_cast<float>(bound);
      multiplier[r] = static_cast<float>(scale_ * std::max(options_.key_radius, 1e-30) / p.bound);
      for (int k = 0; k <= degree; ++k) coefficients_.data()[k * kQueryPanel + r] = static_cast<float>(p.coefficient[k]);
    }
    LoadTransposed({.rows = Rows(queries + first * d, d), .count = count, .row_multiplier = multiplier}, d, kQueryPanel, query_.data());
    float* den = out_.data() + kQueryPanel * columns;
    std::fill_n(out_.data(), kQueryPanel * (columns + 1), 0.0f);
    for (float* z : {total_.data(), recent_.data()}) {
      if (z == total_.data() && flushes_ < kMerge) continue;
      ApplyRows(layout_, {.x = query_.data(), .coefficients = coefficients_.data(), .count = count, .degree = degree, .state_degree = degree,
                          .z = z, .out = out_.data(), .den = den, .scratch = scratch_.data()});
    }
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t c = 0; c < dv; ++c) out[(first + r) * dv + c] = out_.data()[r * columns + c] / den[r];
    }
  }
  return {};
}

}  // namespace attenio::approx
