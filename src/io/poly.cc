// Polynomial attention: capacities, word counts, bounds and the solver over regimes.
#include "attenio/io_poly.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/math.h"

namespace attenio {
namespace {

double Binomial(int64_t n, int64_t k) {
  if (n < k) return 0;
  double c = 1;
  for (int64_t i = 1; i <= k; ++i) c = c * static_cast<double>(n - k + i) / static_cast<double>(i);
  return std::round(c);
}

struct Sizes {
  double m, n, dk, dv, r, g;
};
Sizes SizesOf(const Shape& s, int degree) {
  return {static_cast<double>(s.kv_len),
          static_cast<double>(s.rows()),
          static_cast<double>(s.qk_dim),
          static_cast<double>(s.v_dim),
          static_cast<double>(FeatureCount(s.qk_dim, degree)),
          static_cast<double>(degree)};
}

int64_t ColumnBlocks(const PolySchedule& p, const Shape& s) { return CeilDiv(s.v_dim + 1, p.columns); }

Status NothingFits(const Shape& s, int degree, double words) {
  return Status::Error(Code::kInvalidArgument, "solve: no schedule of degree %d for dims %lld/%lld fits %.0f words",
                       degree, static_cast<long long>(s.qk_dim), static_cast<long long>(s.v_dim), words);
}

// The next block size to try: every one up to 4096, then in steps of 1/4096, so that no size makes the search long.
int64_t Next(int64_t size) { return size + 1 + size / 4096; }

// Calls visit(schedule) for the schedules of a regime that are worth comparing: per column width the largest other block.
template <class Visit>
void Candidates(const Shape& s, int degree, double words, PolyRegime regime, Visit visit) {
  const int64_t r = FeatureCount(s.qk_dim, degree), all = s.v_dim + 1;
  const double rows = static_cast<double>(s.qk_dim) + static_cast<double>(s.v_dim) + degree + 2;  // of Q and O beside Z
  const auto most = [](double size, int64_t limit) {
    return size >= static_cast<double>(limit) ? limit : static_cast<int64_t>(size);
  };
  switch (regime) {
    case PolyRegime::kResident:
      return visit(PolySchedule{regime, degree});
    case PolyRegime::kColumns: {  // the widest that fits moves least; all of one size
      const double w = (words - static_cast<double>(s.qk_dim + degree + 2)) / (static_cast<double>(r) + 1);
      if (w >= 1) visit(PolySchedule{regime, degree, 0, CeilDiv(all, CeilDiv(all, most(w, all)))});
      return;
    }
    case PolyRegime::kBlocks:
      for (int64_t w = 1; w <= all; w = Next(w)) {
        const double b = (words - rows) / static_cast<double>(w);
        if (b < 1) return;
        visit(PolySchedule{regime, degree, most(b, r), w});
      }
      return;
    case PolyRegime::kTensor:
      for (int64_t c = 1; c <= s.qk_dim && degree > 0; c = Next(c)) {
        const double tile = std::pow(static_cast<double>(c), degree),
                     w = (words - 2.0 * degree * static_cast<double>(c)) / (tile + 1);
        if (w < 1) return;
        visit(PolySchedule{regime, degree, 0, most(w, all), c});
      }
  }
}

}  // namespace

int64_t FeatureCount(int64_t dims, int degree) {
  // C(dims + degree, degree) is symmetric, and with k <= n every factor (n + k) / k is at least 2: at most 63 steps.
  const int64_t n = std::max<int64_t>(dims, degree), steps = std::min<int64_t>(dims, degree);
  int64_t count = 1;
  for (int64_t k = 1; k <= steps; ++k) {
    // count (n + k) / k is an integer: divided first, so that nothing overflows that fits in the end.
    const int64_t common = std::gcd(count, k);
    count /= common;
    int64_t factor = n;
    if (!AddInto(&factor, k) || !MultiplyInto(&count, factor / (k / common))) return INT64_MAX;
  }
  return count;
}

const char* Name(PolyRegime regime) {
  constexpr const char* kNames[] = {"R", "B2", "B3", "TT"};
  return kNames[static_cast<int>(regime)];
}

const char* Name(PolyBoundKind kind) {
  constexpr const char* kNames[] = {"compulsory", "dense-features", "monomials"};
  return kNames[static_cast<int>(kind)];
}

std::string PolySchedule::ToString() const {
  std::string text = std::string(Name(regime)) + ":g" + std::to_string(degree);
  if (regime == PolyRegime::kResident) return text;
  text += ":";
  if (regime == PolyRegime::kBlocks) text += "b" + std::to_string(features);
  if (regime == PolyRegime::kTensor) text += "s" + std::to_string(coordinates);
  return text + "w" + std::to_string(columns);
}

double PolyCapacity(const PolySchedule& p, const Shape& s) {
  const Sizes z = SizesOf(s, p.degree);
  const double w = static_cast<double>(p.columns);
  switch (p.regime) {
    case PolyRegime::kResident:
      return z.r * (z.dv + 1) + z.dk + z.dv + z.g + 2;
    case PolyRegime::kColumns:
      return z.r * w + z.dk + w + z.g + 2;
    case PolyRegime::kBlocks:
      return static_cast<double>(p.features) * w + z.dk + z.dv + z.g + 2;
    case PolyRegime::kTensor:
      return (std::pow(p.coordinates, p.degree) + 1) * w + 2 * z.g * static_cast<double>(p.coordinates);
  }
  return 0;
}

Traffic Predict(const PolySchedule& p, const Shape& s) {
  const Sizes z = SizesOf(s, p.degree);
  Traffic t;
  if (p.regime == PolyRegime::kResident || p.regime == PolyRegime::kColumns) {
    const double blocks = p.regime == PolyRegime::kResident ? 1 : static_cast<double>(ColumnBlocks(p, s));
    t.k = blocks * z.m * z.dk;
    t.q = blocks * z.n * z.dk;
    t.v = z.m * z.dv;
    t.out = z.n * z.dv;
    if (blocks > 1) t.stats = blocks * z.n;
    return t;
  }
  const double columns = static_cast<double>(ColumnBlocks(p, s));
  double tiles, reads;  // parts of Z along the features, and how often a coordinate of K and Q is read for them
  if (p.regime == PolyRegime::kBlocks) {
    tiles = reads = std::ceil(z.r / static_cast<double>(p.features));
  } else {
    const int64_t blocks = CeilDiv(s.qk_dim, p.coordinates);
    tiles = Binomial(blocks + p.degree - 1, p.degree);
    reads = tiles - Binomial(blocks + p.degree - 2, p.degree);
  }
  t.k = reads * columns * z.m * z.dk;
  t.q = reads * columns * z.n * z.dk;
  t.v = tiles * z.m * z.dv;
  t.out = (2 * tiles - 1) * z.n * z.dv;
  t.stats = (2 * tiles - 1) * z.n;
  return t;
}

double PolyLowerBound(const Shape& s, int degree, double words, PolyBoundKind kind) {
  const Sizes z = SizesOf(s, degree);
  const double compulsory = (z.m + z.n) * (z.dk + z.dv), d = std::min(z.dk, z.dv), rows = std::min(z.m, z.n);
  switch (kind) {
    case PolyBoundKind::kCompulsory:
      return compulsory;
    case PolyBoundKind::kDense:
      // Only where the state does not fit: below that the count of a resident state is the bound.
      return z.r * (z.dv + 1) <= words ? compulsory : std::max(compulsory, 1.5 * rows * z.r * d * d / words);
    case PolyBoundKind::kMonomials:
      return rows * std::pow(d, degree + 1) / std::pow(words, static_cast<double>(degree) / (degree + 1));
  }
  return 0;
}

Result<PolySchedule> SolvePoly(const Shape& s, int degree, double words, PolyRegime regime) {
  PolySchedule best;
  double best_words = INFINITY;
  Candidates(s, degree, words, regime, [&](const PolySchedule& p) {
    if (PolyCapacity(p, s) > words) return;
    const double moved = Predict(p, s).total();
    if (moved >= best_words) return;
    best = p;
    best_words = moved;
  });
  if (best_words == INFINITY) return NothingFits(s, degree, words);
  return best;
}

Result<PolySchedule> SolvePoly(const Shape& s, int degree, double words) {
  Result<PolySchedule> best = NothingFits(s, degree, words);
  for (const PolyRegime regime :
       {PolyRegime::kResident, PolyRegime::kColumns, PolyRegime::kBlocks, PolyRegime::kTensor}) {
    Result<PolySchedule> p = SolvePoly(s, degree, words, regime);
    if (p.ok() && (!best.ok() || Predict(*p, s).total() < Predict(*best, s).total())) best = p;
  }
  return best;
}

double FlopBreakEven(int64_t qk_dim, int64_t v_dim, int degree, bool causal) {
  const double r = static_cast<double>(FeatureCount(qk_dim, degree)), dv = static_cast<double>(v_dim);
  // Exact: n n (dk + dv) products; polynomial: 2 n r (dv + 1).
  return 2 * r * (dv + 1) / (static_cast<double>(qk_dim) + dv) * (causal ? 2 : 1);
}

}  // namespace attenio
