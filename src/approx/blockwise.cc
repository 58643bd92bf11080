// Block-wise approximation: for every query row and group of keys the cheapest of skip, mean, polynomial and exact such that
// the whole row stays within max_error.
//
// With t = q . centre, n keys and B = |q| radius, the weights of a group sum to between n e^t (Jensen) and n e^t cosh B
// (Hoeffding). Hence D >= L = sum of n e^t over groups, and what a group of relative weight error e costs the output is at most
// e n e^t cosh(B) / L =: its share of eta; |O' - O| <= eta / (1 - eta) (vmax - vmin). All groups at their mean (weights e^t
// sech B, error tanh B) cost one small product; the groups with the largest shares are raised to the polynomial or to exact
// until the rest fits.
#include "approx/blockwise.h"

#include <algorithm>
#include <cmath>

#include "approx/cluster.h"
#include "approx/parallel_for.h"

namespace attenio::approx {
namespace {

constexpr double kLog2e = 1.4426950408889634;
// Keys of one exact step: 96 x 64 scores stay in L1 beside the values.
constexpr int64_t kStepKeys = 64;
// A group whose share is below this fraction of the budget divided by the number of groups counts as skipped: its mean is added
// all the same, since that costs nothing.
constexpr double kSkipShare = 0.1;
// Fraction of the peak that gathered exact steps reach, and the gain below which exact attention runs instead.
constexpr double kGatheredFraction = 0.65;
constexpr double kLeastGain = 1.1;
// In products of that rate: a row gathered for a group and added back, and the choice for a (row, group) pair.
constexpr double kGatherCost = 6000, kDecideCost = 2000;
constexpr int64_t kProbeRows = 384;
// Exponents: e^40 and e^80 stay far inside f32.
constexpr double kHeadroom = 40, kWidest = 120;

enum Kind : uint8_t { kSkip, kMean, kPoly, kExact };

// One row tile of a worker.
struct Tile {
  float *out, *den, *shift, *certified;  // kTileRows x columns; kTileRows each
  float* scores;                         // kTileRows x kMaxGroups: q . centre of each group
  uint8_t* kind;                      // kTileRows x kMaxGroups
};

class Blockwise {
 public:
  Blockwise(const Head& head, const Findings& findings) : h_(head), f_(findings) { SeedGroups(h_, f_, &groups_); }

  void Finish() { FinishGroups(h_, f_, &groups_); }

  // Whether a probe of the rows promises a gain.
  bool Promises() const {
    const WorkerPiece w = h_.Worker(0);
    const Tile tile = TileOf(0);
    const int64_t stride = std::max<int64_t>(1, h_.rows() / kProbeRows);
    Tally tally;
    int64_t probed = 0, failed = 0;
    for (int64_t s = 0; SampleAt(s, stride) < h_.rows();) {
      int64_t count = 0;
      for (; SampleAt(s, stride) < h_.rows() && count < kQueryPanel; ++s) w.index[count++] = SampleAt(s, stride);
      Decide(w.index, count, tile, 0, w, &tally, &failed);
      probed += count;
    }
    if (failed > probed / 4) return false;
    const double d = static_cast<double>(h_.a.shape.qk_dim + h_.a.shape.v_dim);
    const double rows = static_cast<double>(probed), groups = static_cast<double>(groups_.count);
    const double poly = 2.0 * static_cast<double>(FeatureCount(h_.a.shape.qk_dim, h_.a.group_degree)) * static_cast<double>(h_.a.layout.columns());
    const double products = 2 * d * tally.exact_keys + poly * static_cast<double>(tally.kinds[kPoly]) + 2 * d * rows * groups * 2 +
                            kGatherCost * static_cast<double>(tally.kinds[kPoly] + tally.kinds[kExact]) + kDecideCost * rows * groups;
    const double exact = 2 * d * rows * static_cast<double>(h_.keys());
    gain_ = exact / std::max(products, 1.0) * kGatheredFraction / 0.85;
    return h_.a.mode == ApproxMode::kPolynomial || gain_ >= kLeastGain;
  }
  double gain() const { return gain_; }

  void Run(ApproxReport* report) {
    BuildStates();
    const int64_t tiles = CeilDiv(h_.rows(), kTileRows);
    Tally* tallies = reinterpret_cast<Tally*>(h_.base + h_.a.at.group_tallies);
    ParallelFor(h_.parallel, tiles, [&](int64_t t, int worker) {
      tallies[t] = Tally();
      RunTile({t * kTileRows, std::min((t + 1) * kTileRows, h_.rows())}, worker, &tallies[t]);
    });
    if (report == nullptr) return;
    for (int64_t t = 0; t < tiles; ++t) {
      report->blocks_skipped += tallies[t].kinds[kSkip];
      report->blocks_poly += tallies[t].kinds[kMean] + tallies[t].kinds[kPoly];
      report->blocks_exact += tallies[t].kinds[kExact];
      report->certified = std::max(report->certified, tallies[t].certified);
    }
    report->features = std::max(report->features, FeatureCount(h_.a.shape.qk_dim, h_.a.group_degree));
    report->degree = std::max(report->degree, h_.a.group_degree);
  }

 private:
  // An error, and what it takes to lower it.
  struct Share {
    double mean, poly;
    int32_t group;
  };

  Tile TileOf(int worker) const {
    std::byte* at = h_.base + h_.a.at.group_tile + worker * h_.a.at.group_tile_bytes;
    Tile t;
    t.out = reinterpret_cast<float*>(at);
    t.den = t.out + kTileRows * h_.a.layout.columns();
    t.shift = t.den + kTileRows;
    t.certified = t.shift + kTileRows;
    t.scores = t.certified + kTileRows;
    t.kind = reinterpret_cast<uint8_t*>(t.scores + kTileRows * kMaxGroups);
    return t;
  }

  float* StateOf(int64_t group) const {
    return h_.Floats(h_.a.at.state) + group * h_.a.layout.floats(h_.a.group_degree);
  }
  int64_t SizeOf(int64_t group) const { return groups_.begin[group + 1] - groups_.begin[group]; }

  void BuildStates() const {
    const int degree = h_.a.group_degree;
    ParallelFor(h_.parallel, groups_.count, [&](int64_t g, int worker) {
      const WorkerPiece w = h_.Worker(worker);
      std::fill_n(StateOf(g), h_.a.layout.floats(degree), 0.0f);
      const int64_t d = h_.a.shape.qk_dim, columns = h_.a.layout.columns(), slots = groups_.padded[g + 1] - groups_.padded[g];
      const float* keys = h_.Floats(h_.a.at.group_keys) + groups_.padded[g] * d;
      const float* values = h_.Floats(h_.a.at.group_values) + groups_.padded[g] * columns;
      const float inverse = groups_.radius[g] > 1e-30f ? 1 / groups_.radius[g] : 0;
      for (int64_t first = 0; first < SizeOf(g); first += kKeyPanel) {
        const int64_t count = std::min(kKeyPanel, SizeOf(g) - first);
        for (int64_t c = 0; c < d; ++c) {
          const float centre = groups_.centres[c * kMaxGroups + g];
          for (int64_t j = 0; j < count; ++j) w.x[c * kKeyPanel + j] = (keys[c * slots + first + j] - centre) * inverse;
          std::fill(w.x + c * kKeyPanel + count, w.x + (c + 1) * kKeyPanel, 0.0f);
        }
        AddKeys(h_.a.layout, {.x = w.x, .v = values + first * columns, .count = count, .degree = degree,
                              .blocks = {0, h_.a.layout.monomials().blocks(degree)}, .z = StateOf(g), .scratch = w.scratch});
      }
    });
  }

  // Certified error of a relative weight error sum eta.
  static double OutputOf(double eta) { return eta < 0.5 ? eta / (1 - eta) : 1; }

  // Chooses for the rows listed; tile rows local .. local + count get scores, kinds, shifts, and the sum of their means.
  void Decide(const int64_t* rows, int64_t count, const Tile& tile, int64_t local, const WorkerPiece& w, Tally* tally, int64_t* failed) const {
    const int64_t columns = h_.a.layout.columns(), padded = RoundUp(groups_.count, kColumnQuantum);
    const float scale = static_cast<float>(*h_.a.desc.scale);
    LoadTransposed({.rows = h_.Queries(), .index = rows, .count = count, .multiplier = scale}, h_.a.shape.qk_dim, kQueryPanel, w.x);
    float* scores = tile.scores + local * kMaxGroups;
    std::fill_n(scores, RoundUp(count, kRowQuantum) * kMaxGroups, 0.0f);
    GetFeatureKernels().product({.a = w.x, .a_row = 1, .a_k = kQueryPanel, .b = groups_.centres, .c = scores, .stride = kMaxGroups,
                                 .rows = count, .columns = padded, .depth = h_.a.shape.qk_dim});
    std::fill_n(w.weights, kQueryPanel * kMaxGroups, 0.0f);
    for (int64_t r = 0; r < count; ++r) {
      const double norm = h_.Floats(h_.a.at.query_norms)[rows[r]];
      const double certified = DecideRow(norm, local + r, tile, w.weights + r * kMaxGroups, tally);
      tile.certified[local + r] = static_cast<float>(certified);
      if (certified < 0) ++*failed;
    }
    std::fill_n(tile.out + local * columns, RoundUp(count, kRowQuantum) * columns, 0.0f);
    GetFeatureKernels().product({.a = w.weights, .a_row = kMaxGroups, .a_k = 1, .b = groups_.values, .c = tile.out + local * columns,
                                 .stride = columns, .rows = count, .columns = columns, .depth = groups_.count});
  }

  double Fail(int64_t local, const Tile& tile) const {
    tile.shift[local] = 0;
    tile.den[local] = 1;
    std::fill_n(tile.kind + local * kMaxGroups, groups_.count, kSkip);
    return -1;
  }

  // Kinds of one row; mean weights to `mean`. Returns what is certified, -1 when nothing can be.
  double DecideRow(double norm, int64_t local, const Tile& tile, float* mean, Tally* tally) const {
    const float* score = tile.scores + local * kMaxGroups;
    uint8_t* kind = tile.kind + local * kMaxGroups;
    // Rounding of scores: each weight may be off by this factor, and so may the bounds made of them.
    const double slack = static_cast<double>(h_.a.shape.qk_dim + 8) * 0x1p-24 * norm * groups_.reach;
    double budget = h_.a.max_error / (1 + h_.a.max_error) - 2 * slack - 1e-5;
    if (!(slack < h_.a.max_error / 8) || !(budget > 0)) return Fail(local, tile);
    const double spent_before = 2 * slack + 1e-5;
    double top = -INFINITY, centre_top = -INFINITY, mass = 0;
    for (int64_t g = 0; g < groups_.count; ++g) {
      if (SizeOf(g) == 0) continue;
      centre_top = std::max<double>(centre_top, score[g]);
      top = std::max(top, score[g] + norm * groups_.radius[g]);
    }
    // The largest score lies between the two: weights neither overflow nor vanish.
    if (top > centre_top + kWidest) return Fail(local, tile);
    top = std::min(top, centre_top + kHeadroom);
    tile.shift[local] = static_cast<float>(top);
    double weight[kMaxGroups];
    for (int64_t g = 0; g < groups_.count; ++g) {
      weight[g] = SizeOf(g) == 0 ? 0 : std::exp(score[g] - top);
      mass += static_cast<double>(SizeOf(g)) * weight[g];
    }
    Share shares[kMaxGroups];
    int large = 0;
    double small = 0, den = 0;
    const double limit = budget / (4 * static_cast<double>(groups_.count));
    for (int64_t g = 0; g < groups_.count; ++g) {
      if (SizeOf(g) == 0) {
        kind[g] = kSkip;
        continue;
      }
      const double bound = norm * groups_.radius[g], e = std::exp(std::min(bound, 700.0));
      const double share = static_cast<double>(SizeOf(g)) * weight[g] / mass * (1 + 4 * slack);
      const double sinh = (e - 1 / e) / 2, cosh = (e + 1 / e) / 2;
      mean[g] = static_cast<float>(weight[g] / cosh);
      kind[g] = share * cosh < kSkipShare * 4 * limit ? kSkip : kMean;
      if (share * sinh <= limit) {
        small += share * sinh;
      } else {
        const int c = FindClass(h_.a.group_classes, bound * (1 + 1e-6), h_.a.group_degree);
        // Above 1 nothing changes, and sums of them must not drown the small ones.
        shares[large++] = {std::min(share * sinh, 1.0), c < 0 ? 2.0 : share * cosh * h_.a.group_classes[c].certified, static_cast<int32_t>(g)};
      }
    }
    const double spent = small + Raise(shares, large, budget - small, kind);
    for (int i = 0; i < large; ++i) {
      if (kind[shares[i].group] >= kPoly) mean[shares[i].group] = 0;
    }
    for (int64_t g = 0; g < groups_.count; ++g) {
      den += static_cast<double>(mean[g]) * static_cast<double>(SizeOf(g));
      ++tally->kinds[kind[g]];
      if (kind[g] == kExact) tally->exact_keys += static_cast<double>(SizeOf(g));
    }
    tile.den[local] = static_cast<float>(den);
    const double certified = OutputOf(spent + spent_before);
    tally->certified = std::max(tally->certified, certified);
    return certified;
  }

  // The cheapest of: the largest k shares exact, the next ones polynomial, the rest at their means, within the budget. Returns
  // what is spent.
  double Raise(Share* shares, int count, double budget, uint8_t* kind) const {
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

  // Weights reach e^80: with many such keys, or large values, a sum may overflow.
  bool IsFinite(const Tile& tile, int64_t local) const {
    const int64_t columns = h_.a.layout.columns();
    const float* out = tile.out + local * columns;
    return std::isfinite(tile.den[local]) && std::all_of(out, out + columns, [](float x) { return std::isfinite(x); });
  }

  void RunTile(Range rows, int worker, Tally* tally) const {
    const WorkerPiece w = h_.Worker(worker);
    const Tile tile = TileOf(worker);
    int64_t failed = 0;
    for (int64_t first = rows.begin; first < rows.end; first += kQueryPanel) {
      const int64_t count = std::min(kQueryPanel, rows.end - first);
      for (int64_t r = 0; r < count; ++r) w.index[r] = first + r;
      Decide(w.index, count, tile, first - rows.begin, w, tally, &failed);
    }
    for (int64_t g = 0; g < groups_.count; ++g) {
      ForGathered(rows, g, kPoly, tile, w, [&](int64_t count) { PolyStep(rows, g, count, tile, w); });
      ForGathered(rows, g, kExact, tile, w, [&](int64_t count) { ExactStep(rows, g, count, tile, w); });
    }
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const int64_t local = r - rows.begin;
      const bool certified = tile.certified[local] >= 0 && IsFinite(tile, local);
      h_.RowClasses()[r] = certified ? 0 : kExactRow;
      if (!certified) continue;
      WriteRow(h_, f_, r, tile.out + local * h_.a.layout.columns(), tile.den[local], tile.shift[local]);
      if (h_.report == nullptr) continue;
      if (h_.report->row_bound != nullptr) h_.report->row_bound[h_.ReportIndex(r)] = tile.certified[local];
      if (h_.report->row_degree != nullptr) h_.report->row_degree[h_.ReportIndex(r)] = static_cast<int8_t>(h_.a.group_degree);
    }
  }

  // Calls step(count) with w.index filled with up to kQueryPanel rows that take group g by `kind`.
  template <class Step>
  void ForGathered(Range rows, int64_t g, Kind kind, const Tile& tile, const WorkerPiece& w, Step step) const {
    int64_t count = 0;
    for (int64_t local = 0; local < rows.size(); ++local) {
      if (tile.kind[local * kMaxGroups + g] != kind) continue;
      w.index[count++] = rows.begin + local;
      if (count == kQueryPanel) {
        step(count);
        count = 0;
      }
    }
    if (count > 0) step(count);
  }

  void Scatter(Range rows, int64_t count, const Tile& tile, const WorkerPiece& w) const {
    const int64_t columns = h_.a.layout.columns();
    for (int64_t r = 0; r < count; ++r) {
      const int64_t local = w.index[r] - rows.begin;
      float* out = tile.out + local * columns;
      for (int64_t c = 0; c < columns; ++c) out[c] += w.v[r * columns + c];
      tile.den[local] += w.den[r];
    }
  }

  void PolyStep(Range rows, int64_t g, int64_t count, const Tile& tile, const WorkerPiece& w) const {
    const int degree = h_.a.group_degree;
    std::fill_n(w.coefficients, (h_.a.layout.monomials().degree() + 1) * kQueryPanel, 0.0f);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t local = w.index[r] - rows.begin;
      const double bound = h_.Floats(h_.a.at.query_norms)[w.index[r]] * static_cast<double>(groups_.radius[g]);
      const ExpPolynomial& p = h_.a.group_classes[FindClass(h_.a.group_classes, bound * (1 + 1e-6), degree)].p;
      const double weight = std::exp(static_cast<double>(tile.scores[local * kMaxGroups + g]) - tile.shift[local]);
      for (int k = 0; k <= p.degree; ++k) w.coefficients[k * kQueryPanel + r] = static_cast<float>(weight * p.coefficient[k]);
      w.row_multiplier[r] = static_cast<float>(*h_.a.desc.scale * groups_.radius[g] / p.bound);
    }
    LoadTransposed({.rows = h_.Queries(), .index = w.index, .count = count, .row_multiplier = w.row_multiplier}, h_.a.shape.qk_dim, kQueryPanel, w.x);
    std::fill_n(w.v, kQueryPanel * h_.a.layout.columns(), 0.0f);
    std::fill_n(w.den, kQueryPanel, 0.0f);
    ApplyRows(h_.a.layout, {.x = w.x, .coefficients = w.coefficients, .count = count, .degree = degree, .state_degree = degree,
                            .z = StateOf(g), .out = w.v, .den = w.den, .scratch = w.scratch});
    Scatter(rows, count, tile, w);
  }

  void ExactStep(Range rows, int64_t g, int64_t count, const Tile& tile, const WorkerPiece& w) const {
    const FeatureKernels& kernels = GetFeatureKernels();
    const int64_t d = h_.a.shape.qk_dim, columns = h_.a.layout.columns(), slots = groups_.padded[g + 1] - groups_.padded[g];
    const float* keys = h_.Floats(h_.a.at.group_keys) + groups_.padded[g] * d;
    const float* values = h_.Floats(h_.a.at.group_values) + groups_.padded[g] * columns;
    LoadTransposed({.rows = h_.Queries(), .index = w.index, .count = count, .multiplier = static_cast<float>(*h_.a.desc.scale * kLog2e)}, d, kQueryPanel, w.x);
    for (int64_t r = 0; r < count; ++r) w.row_shift[r] = static_cast<float>(tile.shift[w.index[r] - rows.begin] * kLog2e);
    std::fill_n(w.v, kQueryPanel * columns, 0.0f);
    std::fill_n(w.den, kQueryPanel, 0.0f);
    for (int64_t first = 0; first < SizeOf(g); first += kStepKeys) {
      const int64_t width = std::min(kStepKeys, slots - first);
      std::fill_n(w.weights, RoundUp(count, kRowQuantum) * kStepKeys, 0.0f);
      kernels.product({.a = w.x, .a_row = 1, .a_k = kQueryPanel, .b = keys + first, .c = w.weights, .stride = slots,
                       .c_stride = kStepKeys, .rows = count, .columns = width, .depth = d});
      kernels.weights({.scores = w.weights, .stride = kStepKeys, .rows = count, .count = std::min(kStepKeys, SizeOf(g) - first),
                       .shift = w.row_shift, .sums = w.den});
      kernels.product({.a = w.weights, .a_row = kStepKeys, .a_k = 1, .b = values + first * columns, .c = w.v, .stride = columns,
                       .rows = count, .columns = columns, .depth = width});
    }
    Scatter(rows, count, tile, w);
  }

  const Head& h_;
  const Findings& f_;
  Groups groups_;
  mutable double gain_ = 1;
};

}  // namespace

bool RunBlockwise(const Head& h, const Findings& f) {
  Blockwise blockwise(h, f);
  // The sample's radii promise too much: worth the grouping of all keys only if even they promise a gain.
  if (!blockwise.Promises()) return false;
  blockwise.Finish();
  if (!blockwise.Promises()) return false;
  if (h.report != nullptr) h.report->predicted_gain = blockwise.gain();
  blockwise.Run(h.report);
  return true;
}

}  // namespace attenio::approx
