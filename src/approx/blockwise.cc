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
#include "approx/group_choice.h"
#include "approx/parallel_for.h"

namespace attenio::approx {
namespace {

constexpr double kLog2e = 1.4426950408889634;
// Keys of one exact step: 96 x 64 scores stay in L1 beside the values.
constexpr int64_t kStepKeys = 64;
// The gain below which exact attention runs instead.
constexpr double kLeastGain = 1.1;

class Blockwise {
 public:
  Blockwise(const Head& head, const Findings& findings, const Groups& groups, const GroupChoice& choice)
      : h_(head), f_(findings), groups_(groups), choice_(choice) {}

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
  float* StateOf(int64_t group) const {
    return h_.Floats(h_.a.at.state) + group * h_.a.layout.floats(h_.a.group_degree);
  }

  void BuildStates() const {
    const int degree = h_.a.group_degree;
    ParallelFor(h_.parallel, groups_.count, [&](int64_t g, int worker) {
      const WorkerPiece w = h_.Worker(worker);
      std::fill_n(StateOf(g), h_.a.layout.floats(degree), 0.0f);
      const int64_t d = h_.a.shape.qk_dim, columns = h_.a.layout.columns(),
                    slots = groups_.padded[g + 1] - groups_.padded[g];
      const float* keys = h_.Floats(h_.a.at.group_keys) + groups_.padded[g] * d;
      const float* values = h_.Floats(h_.a.at.group_values) + groups_.padded[g] * columns;
      const float inverse = groups_.radius[g] > 1e-30f ? 1 / groups_.radius[g] : 0;
      for (int64_t first = 0; first < groups_.size(g); first += kKeyPanel) {
        const int64_t count = std::min(kKeyPanel, groups_.size(g) - first);
        for (int64_t c = 0; c < d; ++c) {
          const float centre = groups_.centres[c * kMaxGroups + g];
          for (int64_t j = 0; j < count; ++j) w.x[c * kKeyPanel + j] = (keys[c * slots + first + j] - centre) * inverse;
          std::fill(w.x + c * kKeyPanel + count, w.x + (c + 1) * kKeyPanel, 0.0f);
        }
        AddKeys(h_.a.layout, {.x = w.x,
                              .v = values + first * columns,
                              .count = count,
                              .degree = degree,
                              .blocks = {0, h_.a.layout.monomials().blocks(degree)},
                              .z = StateOf(g),
                              .scratch = w.scratch});
      }
    });
  }

  // Weights reach e^80: with many such keys, or large values, a sum may overflow.
  bool IsFinite(const Tile& tile, int64_t local) const {
    const int64_t columns = h_.a.layout.columns();
    const float* out = tile.out + local * columns;
    return std::isfinite(tile.den[local]) && std::all_of(out, out + columns, [](float x) { return std::isfinite(x); });
  }

  void RunTile(Range rows, int worker, Tally* tally) const {
    const WorkerPiece w = h_.Worker(worker);
    const Tile tile = TileOf(h_, worker);
    int64_t failed = 0;
    for (int64_t first = rows.begin; first < rows.end; first += kQueryPanel) {
      const int64_t count = std::min(kQueryPanel, rows.end - first);
      for (int64_t r = 0; r < count; ++r) w.index[r] = first + r;
      choice_.Decide(w.index, count, tile, first - rows.begin, w, tally, &failed);
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
      if (h_.report->row_degree != nullptr)
        h_.report->row_degree[h_.ReportIndex(r)] = static_cast<int8_t>(h_.a.group_degree);
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
      for (int k = 0; k <= p.degree; ++k)
        w.coefficients[k * kQueryPanel + r] = static_cast<float>(weight * p.coefficient[k]);
      w.row_multiplier[r] = static_cast<float>(*h_.a.desc.scale * groups_.radius[g] / p.bound);
    }
    LoadTransposed({.rows = h_.Queries(), .index = w.index, .count = count, .row_multiplier = w.row_multiplier},
                   h_.a.shape.qk_dim, kQueryPanel, w.x);
    std::fill_n(w.v, kQueryPanel * h_.a.layout.columns(), 0.0f);
    std::fill_n(w.den, kQueryPanel, 0.0f);
    ApplyRows(h_.a.layout, {.x = w.x,
                            .coefficients = w.coefficients,
                            .count = count,
                            .degree = degree,
                            .state_degree = degree,
                            .z = StateOf(g),
                            .out = w.v,
                            .den = w.den,
                            .scratch = w.scratch});
    Scatter(rows, count, tile, w);
  }

  void ExactStep(Range rows, int64_t g, int64_t count, const Tile& tile, const WorkerPiece& w) const {
    const FeatureKernels& kernels = GetFeatureKernels();
    const int64_t d = h_.a.shape.qk_dim, columns = h_.a.layout.columns(),
                  slots = groups_.padded[g + 1] - groups_.padded[g];
    const float* keys = h_.Floats(h_.a.at.group_keys) + groups_.padded[g] * d;
    const float* values = h_.Floats(h_.a.at.group_values) + groups_.padded[g] * columns;
    LoadTransposed({.rows = h_.Queries(),
                    .index = w.index,
                    .count = count,
                    .multiplier = static_cast<float>(*h_.a.desc.scale * kLog2e)},
                   d, kQueryPanel, w.x);
    for (int64_t r = 0; r < count; ++r)
      w.row_shift[r] = static_cast<float>(tile.shift[w.index[r] - rows.begin] * kLog2e);
    std::fill_n(w.v, kQueryPanel * columns, 0.0f);
    std::fill_n(w.den, kQueryPanel, 0.0f);
    for (int64_t first = 0; first < groups_.size(g); first += kStepKeys) {
      const int64_t width = std::min(kStepKeys, slots - first);
      std::fill_n(w.weights, RoundUp(count, kRowQuantum) * kStepKeys, 0.0f);
      kernels.product({.a = w.x,
                       .a_row = 1,
                       .a_k = kQueryPanel,
                       .b = keys + first,
                       .c = w.weights,
                       .stride = slots,
                       .c_stride = kStepKeys,
                       .rows = count,
                       .columns = width,
                       .depth = d});
      kernels.weights({.scores = w.weights,
                       .stride = kStepKeys,
                       .rows = count,
                       .count = std::min(kStepKeys, groups_.size(g) - first),
                       .shift = w.row_shift,
                       .sums = w.den});
      kernels.product({.a = w.weights,
                       .a_row = kStepKeys,
                       .a_k = 1,
                       .b = values + first * columns,
                       .c = w.v,
                       .stride = columns,
                       .rows = count,
                       .columns = columns,
                       .depth = width});
    }
    Scatter(rows, count, tile, w);
  }

  const Head& h_;
  const Findings& f_;
  const Groups& groups_;
  const GroupChoice& choice_;
};

}  // namespace

bool RunBlockwise(const Head& h, const Findings& f) {
  Groups groups;
  SeedGroups(h, f, &groups);
  const GroupChoice choice(h, groups);
  const double least = h.a.mode == ApproxMode::kPolynomial ? 1e-9 : kLeastGain;
  // The sample's radii promise too much: worth the grouping of all keys only if even they promise a gain.
  if (choice.PredictGain() < least) return false;
  FinishGroups(h, f, &groups);
  const double gain = choice.PredictGain();
  if (gain < least) return false;
  if (h.report != nullptr) h.report->predicted_gain = gain;
  Blockwise(h, f, groups, choice).Run(h.report);
  return true;
}

}  // namespace attenio::approx
