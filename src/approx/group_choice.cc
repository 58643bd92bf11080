#include "approx/group_choice.h"

#include <algorithm>
#include <cmath>

namespace attenio::approx {
namespace {

// A group whose share is below this fraction of the budget divided by the number of groups counts as skipped: its mean is added
// all the same, since that costs nothing.
constexpr double kSkipShare = 0.1;
// Fractions of the peak that gathered exact steps and the exact kernel reach.
constexpr double kGatheredFraction = 0.65, kExactFraction = 0.85;
// In products of that rate: a row gathered for a group and added back, and the choice for a (row, group) pair.
constexpr double kGatherCost = 6000, kDecideCost = 2000;
constexpr int64_t kProbeRows = 384;
// Exponents: e^40 and e^80 stay far inside f32.
constexpr double kHeadroom = 40, kWidest = 120;

// Certified error of a relative weight error sum eta.
double OutputOf(double eta) { return eta < 0.5 ? eta / (1 - eta) : 1; }

}  // namespace

Tile TileOf(const Head& h, int worker) {
  std::byte* at = h.base + h.a.at.group_tile + worker * h.a.at.group_tile_bytes;
  Tile t;
  t.out = reinterpret_cast<float*>(at);
  t.den = t.out + kTileRows * h.a.layout.columns();
  t.shift = t.den + kTileRows;
  t.certified = t.shift + kTileRows;
  t.scores = t.certified + kTileRows;
  t.kind = reinterpret_cast<uint8_t*>(t.scores + kTileRows * kMaxGroups);
  return t;
}

double GroupChoice::PredictGain() const {
  const WorkerPiece w = h_.Worker(0);
  const Tile tile = TileOf(h_, 0);
  const int64_t stride = std::max<int64_t>(1, h_.rows() / kProbeRows);
  Tally tally;
  int64_t probed = 0, failed = 0;
  for (int64_t s = 0; SampleAt(s, stride) < h_.rows();) {
    int64_t count = 0;
    for (; SampleAt(s, stride) < h_.rows() && count < kQueryPanel; ++s) w.index[count++] = SampleAt(s, stride);
    Decide(w.index, count, tile, 0, w, &tally, &failed);
    probed += count;
  }
  if (failed > probed / 4) return 0;
  const double d = static_cast<double>(h_.a.shape.qk_dim + h_.a.shape.v_dim);
  const double rows = static_cast<double>(probed), groups = static_cast<double>(groups_.count);
  const double poly = 2.0 * static_cast<double>(FeatureCount(h_.a.shape.qk_dim, h_.a.group_degree)) *
                      static_cast<double>(h_.a.layout.columns());
  const double products =
      2 * d * tally.exact_keys + poly * static_cast<double>(tally.kinds[kPoly]) + 2 * d * rows * groups * 2 +
      kGatherCost * static_cast<double>(tally.kinds[kPoly] + tally.kinds[kExact]) + kDecideCost * rows * groups;
  const double exact = 2 * d * rows * static_cast<double>(h_.keys());
  return exact / std::max(products, 1.0) * kGatheredFraction / kExactFraction;
}

void GroupChoice::Decide(const int64_t* rows, int64_t count, const Tile& tile, int64_t local, const WorkerPiece& w,
                         Tally* tally, int64_t* failed) const {
  const int64_t columns = h_.a.layout.columns(), padded = RoundUp(groups_.count, kColumnQuantum);
  const float scale = static_cast<float>(*h_.a.desc.scale);
  LoadTransposed({.rows = h_.Queries(), .index = rows, .count = count, .multiplier = scale}, h_.a.shape.qk_dim,
                 kQueryPanel, w.x);
  float* scores = tile.scores + local * kMaxGroups;
  std::fill_n(scores, RoundUp(count, kRowQuantum) * kMaxGroups, 0.0f);
  GetFeatureKernels().product({.a = w.x,
                               .a_row = 1,
                               .a_k = kQueryPanel,
                               .b = groups_.centres,
                               .c = scores,
                               .stride = kMaxGroups,
                               .rows = count,
                               .columns = padded,
                               .depth = h_.a.shape.qk_dim});
  std::fill_n(w.weights, kQueryPanel * kMaxGroups, 0.0f);
  for (int64_t r = 0; r < count; ++r) {
    const double norm = h_.Floats(h_.a.at.query_norms)[rows[r]];
    const double certified = DecideRow(norm, local + r, tile, w.weights + r * kMaxGroups, tally);
    tile.certified[local + r] = static_cast<float>(certified);
    if (certified < 0) ++*failed;
  }
  std::fill_n(tile.out + local * columns, RoundUp(count, kRowQuantum) * columns, 0.0f);
  GetFeatureKernels().product({.a = w.weights,
                               .a_row = kMaxGroups,
                               .a_k = 1,
                               .b = groups_.values,
                               .c = tile.out + local * columns,
                               .stride = columns,
                               .rows = count,
                               .columns = columns,
                               .depth = groups_.count});
}

double GroupChoice::Fail(int64_t local, const Tile& tile) const {
  tile.shift[local] = 0;
  tile.den[local] = 1;
  std::fill_n(tile.kind + local * kMaxGroups, groups_.count, kSkip);
  return -1;
}

// Kinds of one row; mean weights to `mean`. Returns what is certified, -1 when nothing can be.
double GroupChoice::DecideRow(double norm, int64_t local, const Tile& tile, float* mean, Tally* tally) const {
  const float* score = tile.scores + local * kMaxGroups;
  uint8_t* kind = tile.kind + local * kMaxGroups;
  // Rounding of scores: each weight may be off by this factor, and so may the bounds made of them.
  const double slack = static_cast<double>(h_.a.shape.qk_dim + 8) * 0x1p-24 * norm * groups_.reach;
  double budget = h_.a.max_error / (1 + h_.a.max_error) - 2 * slack - 1e-5;
  if (!(slack < h_.a.max_error / 8) || !(budget > 0)) return Fail(local, tile);
  const double spent_before = 2 * slack + 1e-5;
  double top = -INFINITY, centre_top = -INFINITY, mass = 0;
  for (int64_t g = 0; g < groups_.count; ++g) {
    if (groups_.size(g) == 0) continue;
    centre_top = std::max<double>(centre_top, score[g]);
    top = std::max(top, score[g] + norm * groups_.radius[g]);
  }
  // The largest score lies between the two: weights neither overflow nor vanish.
  if (top > centre_top + kWidest) return Fail(local, tile);
  top = std::min(top, centre_top + kHeadroom);
  tile.shift[local] = static_cast<float>(top);
  double weight[kMaxGroups];
  for (int64_t g = 0; g < groups_.count; ++g) {
    weight[g] = groups_.size(g) == 0 ? 0 : std::exp(score[g] - top);
    mass += static_cast<double>(groups_.size(g)) * weight[g];
  }
  Share shares[kMaxGroups];
  int large = 0;
  double small = 0, den = 0;
  const double limit = budget / (4 * static_cast<double>(groups_.count));
  for (int64_t g = 0; g < groups_.count; ++g) {
    if (groups_.size(g) == 0) {
      kind[g] = kSkip;
      continue;
    }
    const double bound = norm * groups_.radius[g], e = std::exp(std::min(bound, 700.0));
    const double share = static_cast<double>(groups_.size(g)) * weight[g] / mass * (1 + 4 * slack);
    const double sinh = (e - 1 / e) / 2, cosh = (e + 1 / e) / 2;
    mean[g] = static_cast<float>(weight[g] / cosh);
    kind[g] = share * cosh < kSkipShare * 4 * limit ? kSkip : kMean;
    if (share * sinh <= limit) {
      small += share * sinh;
    } else {
      const int c = FindClass(h_.a.group_classes, bound * (1 + 1e-6), h_.a.group_degree);
      // Above 1 nothing changes, and sums of them must not drown the small ones.
      shares[large++] = {std::min(share * sinh, 1.0), c < 0 ? 2.0 : share * cosh * h_.a.group_classes[c].certified,
                         static_cast<int32_t>(g)};
    }
  }
  const double spent = small + Raise(shares, large, budget - small, kind);
  for (int i = 0; i < large; ++i) {
    if (kind[shares[i].group] >= kPoly) mean[shares[i].group] = 0;
  }
  for (int64_t g = 0; g < groups_.count; ++g) {
    den += static_cast<double>(mean[g]) * static_cast<double>(groups_.size(g));
    ++tally->kinds[kind[g]];
    if (kind[g] == kExact) tally->exact_keys += static_cast<double>(groups_.size(g));
  }
  tile.den[local] = static_cast<float>(den);
  const double certified = OutputOf(spent + spent_before);
  tally->certified = std::max(tally->certified, certified);
  return certified;
}

// The cheapest of: the largest k shares exact, the next ones polynomial, the rest at their means, within the budget. Returns
// what is spent.
double GroupChoice::Raise(Share* shares, int count, double budget, uint8_t* kind) const {
  std::sort(shares, shares + count, [](const Share& a, const Share& b) { return a.mean > b.mean; });
  double means[kMaxGroups + 1], polys[kMaxGroups + 1];  // sums of the first i
  means[0] = polys[0] = 0;
  for (int i = 0; i < count; ++i) {
    means[i + 1] = means[i] + shares[i].mean;
    polys[i + 1] = polys[i] + std::min(shares[i].poly, shares[i].mean);
  }
  int best_exact = count, best_poly = count;
  double best_cost = INFINITY;
  for (int k = 0, l = count; k <= count; ++k) {
    l = std::max(k, l);
    const auto spent = [&](int poly_end) { return polys[poly_end] - polys[k] + means[count] - means[poly_end]; };
    if (spent(l) > budget) {  // more polynomials do not help when the last position is the end already
      l = count;
      if (spent(l) > budget) continue;
    }
    while (l > k && spent(l - 1) <= budget) --l;
    const double cost = k * h_.a.group_exact_cost + (l - k) * h_.a.group_poly_cost;
    if (cost < best_cost) {
      best_cost = cost;
      best_exact = k;
      best_poly = l;
    }
  }
  double spent = 0;
  for (int i = 0; i < count; ++i) {
    const bool poly = i < best_poly && shares[i].poly < shares[i].mean;
    kind[shares[i].group] = i < best_exact ? kExact : poly ? kPoly : kMean;
    spent += i < best_exact ? 0 : poly ? shares[i].poly : shares[i].mean;
  }
  return spent;
}

}  // namespace attenio::approx
