#include "approx/cluster.h"

#include <algorithm>
#include <cmath>

#include "approx/parallel_for.h"
#include "approx/survey.h"
#include "base/bits.h"

namespace attenio::approx {
namespace {

constexpr int kRounds = 3;
constexpr int64_t kSamplePerGroup = 16;  // at most kSampleRows = 16 kMaxGroups sampled keys

// Writes the nearest centre of up to kQueryPanel keys: the largest x . c - |c|^2 / 2.
void Nearest(const Head& h, const Findings& f, const Groups& g, const int64_t* keys, int64_t count,
             const float* half_squares, const WorkerPiece& w, uint8_t* group) {
  LoadTransposed({.rows = h.Keys(), .index = keys, .count = count, .shift = f.centre}, h.a.shape.qk_dim, kQueryPanel,
                 w.x);
  const int64_t padded = RoundUp(g.count, kColumnQuantum);
  std::fill_n(w.weights, kQueryPanel * kMaxGroups, 0.0f);
  GetFeatureKernels().product({.a = w.x,
                               .a_row = 1,
                               .a_k = kQueryPanel,
                               .b = g.centres,
                               .c = w.weights,
                               .stride = kMaxGroups,
                               .rows = count,
                               .columns = padded,
                               .depth = h.a.shape.qk_dim});
  for (int64_t r = 0; r < count; ++r) {
    const float* score = w.weights + r * kMaxGroups;
    int64_t best = 0;
    for (int64_t c = 1; c < g.count; ++c) {
      if (score[c] - half_squares[c] > score[best] - half_squares[best]) best = c;
    }
    group[r] = static_cast<uint8_t>(best);
  }
}

void HalfSquares(const Head& h, const Groups& g, float* half) {
  std::fill_n(half, g.count, 0.0f);
  for (int64_t c = 0; c < h.a.shape.qk_dim; ++c) {
    for (int64_t i = 0; i < g.count; ++i) half[i] += g.centres[c * kMaxGroups + i] * g.centres[c * kMaxGroups + i] / 2;
  }
}

// x = key - centre of all
void LoadKey(const Head& h, const Findings& f, int64_t key, float* x) {
  LoadRows({.rows = h.Keys().From(key), .count = 1, .shift = f.centre}, h.a.shape.qk_dim, h.a.shape.qk_dim, 1, x);
}

// Seeds: each the sampled key that a draw proportional to the squared distance from the seeds so far picks (k-means++).
void Seed(const Head& h, const float* rows, int64_t sampled, const WorkerPiece& w, Groups* g) {
  const int64_t d = h.a.shape.qk_dim;
  float* distance = h.Floats(h.a.at.sample);
  const RowView view{.base = rows, .outer = d};
  std::fill_n(distance, sampled, 1.0f);
  uint64_t random = 0x9e3779b97f4a7c15u;
  for (int64_t i = 0; i < g->count; ++i) {
    double total = 0;
    for (int64_t s = 0; s < sampled; ++s) total += distance[s];
    random = random * 6364136223846793005u + 1442695040888963407u;
    double left = total * static_cast<double>(random >> 11) * 0x1p-53;
    int64_t pick = 0;
    while (pick + 1 < sampled && (left -= distance[pick]) > 0) ++pick;
    const float* seed = rows + pick * d;
    for (int64_t c = 0; c < d; ++c) g->centres[c * kMaxGroups + i] = seed[c];
    for (int64_t first = 0; first < sampled; first += kKeyPanel) {
      const int64_t count = std::min(kKeyPanel, sampled - first);
      RowNorms(view.From(first), count, d, seed, w.v);
      for (int64_t s = 0; s < count; ++s) {
        distance[first + s] = i == 0 ? w.v[s] * w.v[s] : std::min(distance[first + s], w.v[s] * w.v[s]);
      }
    }
  }
}

// Centres become the means of the listed rows of each group; an empty group keeps its centre.
template <class Row>
void Means(const Head& h, int64_t count, const uint8_t* group, Row row, Groups* g) {
  const int64_t d = h.a.shape.qk_dim;
  double* sums = reinterpret_cast<double*>(h.base + h.a.at.group_sums);
  int64_t members[kMaxGroups] = {};
  std::fill_n(sums, g->count * d, 0.0);
  for (int64_t i = 0; i < count; ++i) {
    const float* x = row(i);
    double* sum = sums + group[i] * d;
    for (int64_t c = 0; c < d; ++c) sum[c] += x[c];
    ++members[group[i]];
  }
  for (int64_t i = 0; i < g->count; ++i) {
    for (int64_t c = 0; c < d && members[i] > 0; ++c) {
      g->centres[c * kMaxGroups + i] = static_cast<float>(sums[i * d + c] / static_cast<double>(members[i]));
    }
  }
}

void Sort(const Head& h, const uint8_t* group, Groups* g) {
  int64_t members[kMaxGroups + 1] = {};
  for (int64_t j = 0; j < h.keys(); ++j) ++members[group[j] + 1];
  g->begin[0] = g->padded[0] = 0;
  for (int64_t i = 0; i < g->count; ++i) {
    g->begin[i + 1] = g->begin[i] + members[i + 1];
    g->padded[i + 1] = g->padded[i] + RoundUp(members[i + 1], kColumnQuantum);
    members[i + 1] = g->begin[i];  // where the group's next key goes
  }
  for (int64_t j = 0; j < h.keys(); ++j) g->order[members[group[j] + 1]++] = j;
}

// Radii, packed keys and values, sums of values. A group's task.
void Pack(const Head& h, const Findings& f, const Groups& g, int64_t i) {
  const int64_t d = h.a.shape.qk_dim, columns = h.a.layout.columns(), slots = g.padded[i + 1] - g.padded[i];
  const int64_t count = g.begin[i + 1] - g.begin[i];
  float* k = h.Floats(h.a.at.group_keys) + g.padded[i] * d;
  float* v = h.Floats(h.a.at.group_values) + g.padded[i] * columns;
  LoadTransposed({.rows = h.Keys(), .index = g.order + g.begin[i], .count = count, .shift = f.centre}, d, slots, k);
  LoadRows({.rows = h.Values(), .index = g.order + g.begin[i], .count = count, .shift = f.middle}, h.a.shape.v_dim,
           columns, slots, v);
  float largest = 0;
  for (int64_t j = 0; j < count; ++j) {
    double square = 0;
    for (int64_t c = 0; c < d; ++c) {
      const double x = static_cast<double>(k[c * slots + j]) - g.centres[c * kMaxGroups + i];
      square += x * x;
    }
    largest = std::max(largest, static_cast<float>(std::sqrt(square) * (1 + 1e-6)));
  }
  g.radius[i] = largest;
  float* sum = g.values + i * columns;
  std::fill_n(sum, columns, 0.0f);
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t c = 0; c < columns; ++c) sum[c] += v[j * columns + c];
  }
}

}  // namespace

int64_t GroupCount(int64_t keys) { return std::clamp<int64_t>(keys / kGroupKeys, 1, kMaxGroups); }

void SeedGroups(const Head& h, const Findings& f, Groups* g) {
  g->count = GroupCount(h.keys());
  g->centres = h.Floats(h.a.at.group_centres);
  g->radius = h.Floats(h.a.at.group_radius);
  g->begin = h.Integers(h.a.at.group_begin);
  g->padded = g->begin + kMaxGroups + 1;
  g->order = h.Integers(h.a.at.order);
  g->values = h.Floats(h.a.at.group_means);
  const float* norms = h.Floats(h.a.at.key_norms);
  g->reach = *std::max_element(norms, norms + h.keys());
  const int64_t d = h.a.shape.qk_dim, stride = CeilDiv(h.keys(), std::min(h.keys(), kSamplePerGroup * g->count));
  std::fill_n(g->centres, d * kMaxGroups, 0.0f);
  std::fill_n(g->values, kMaxGroups * h.a.layout.columns(), 0.0f);
  float* rows = h.Floats(h.a.at.group_sample);
  int64_t sampled = 0;
  for (; SampleAt(sampled, stride) < h.keys(); ++sampled) LoadKey(h, f, SampleAt(sampled, stride), rows + sampled * d);
  uint8_t* group = reinterpret_cast<uint8_t*>(h.base + h.a.at.group_of);
  const WorkerPiece w = h.Worker(0);
  float half[kMaxGroups];
  Seed(h, rows, sampled, w, g);
  for (int round = 0; round < kRounds; ++round) {
    HalfSquares(h, *g, half);
    for (int64_t first = 0; first < sampled; first += kQueryPanel) {
      const int64_t count = std::min(kQueryPanel, sampled - first);
      for (int64_t r = 0; r < count; ++r) w.index[r] = SampleAt(first + r, stride);
      Nearest(h, f, *g, w.index, count, half, w, group + first);
    }
    Means(
        h, sampled, group, [&](int64_t i) { return rows + i * d; }, g);
  }
  int64_t members[kMaxGroups] = {};
  std::fill_n(g->radius, g->count, 0.0f);
  for (int64_t s = 0; s < sampled; ++s) {
    ++members[group[s]];
    float square = 0;
    for (int64_t c = 0; c < d; ++c) {
      const float x = rows[s * d + c] - g->centres[c * kMaxGroups + group[s]];
      square += x * x;
    }
    g->radius[group[s]] = std::max(g->radius[group[s]], std::sqrt(square));
  }
  g->begin[0] = 0;
  for (int64_t i = 0; i < g->count; ++i) g->begin[i + 1] = g->begin[i] + members[i] * stride;
}

void FinishGroups(const Head& h, const Findings& f, Groups* g) {
  uint8_t* group = reinterpret_cast<uint8_t*>(h.base + h.a.at.group_of);
  float half[kMaxGroups];
  HalfSquares(h, *g, half);
  ParallelFor(h.parallel, CeilDiv(h.keys(), kQueryPanel), [&](int64_t task, int worker) {
    const WorkerPiece w = h.Worker(worker);
    const int64_t first = task * kQueryPanel, count = std::min(kQueryPanel, h.keys() - first);
    for (int64_t r = 0; r < count; ++r) w.index[r] = first + r;
    Nearest(h, f, *g, w.index, count, half, w, group + first);
  });
  float* x = h.Worker(0).v;
  Means(
      h, h.keys(), group,
      [&](int64_t j) {
        LoadKey(h, f, j, x);
        return static_cast<const float*>(x);
      },
      g);
  Sort(h, group, g);
  ParallelFor(h.parallel, g->count, [&](int64_t i, int) { Pack(h, f, *g, i); });
}

}  // namespace attenio::approx
