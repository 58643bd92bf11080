// Keys that reach much farther than the others: left out of the state, added exactly.
#include <algorithm>
#include <cmath>

#include "approx/head.h"
#include "approx/survey.h"
#include "base/bits.h"

namespace attenio::approx {
namespace {

// Adds the keys of [keys.begin, keys.end) that are not listed in [skip, skip_end).
void SumKept(const Head& h, Range keys, const int64_t* skip, const int64_t* skip_end, double* sum) {
  const RowView rows = h.Keys();
  WithFloatType(rows.dtype, [&](auto* type) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      if (skip != skip_end && *skip == j) {
        ++skip;
        continue;
      }
      for (int64_t c = 0; c < h.a.shape.qk_dim; ++c) sum[c] += ToFloat(rows.Row<T>(j)[c * rows.element]);
    }
  });
}

}  // namespace

double MedianKeyNorm(const Head& h) {
  float* sample = h.Floats(h.a.at.sample);
  const int64_t stride = CeilDiv(h.keys(), kSampleRows);
  int64_t count = 0;
  for (int64_t s = 0; SampleAt(s, stride) < h.keys(); ++s)
    sample[count++] = h.Floats(h.a.at.key_norms)[SampleAt(s, stride)];
  std::nth_element(sample, sample + count / 2, sample + count);
  return sample[count / 2];
}

Outliers FindOutliers(const Head& h, const Findings& f, double radius, int64_t most) {
  Outliers o;
  int64_t* index = h.Integers(h.a.at.outliers);
  o.index = index;
  const float* norm = h.Floats(h.a.at.key_norms);
  for (int64_t j = 0; j < h.keys() && o.count < most; ++j) {
    if (norm[j] <= radius) continue;
    index[o.count++] = j;
    o.largest = std::max(o.largest, static_cast<double>(norm[j]) / std::max(radius, 1e-30));
  }
  // Survey tasks with an outlier are summed again without it: subtracting a huge key would leave nothing of the others.
  std::fill_n(f.kept_sum, h.a.shape.qk_dim, 0.0);
  const int64_t* skip = index;
  for (int64_t task = 0; task * kSurveyKeys < h.keys(); ++task) {
    const Range keys{task * kSurveyKeys, std::min((task + 1) * kSurveyKeys, h.keys())};
    const int64_t* skip_end = std::lower_bound(skip, static_cast<const int64_t*>(index + o.count), keys.end);
    if (skip == skip_end) {
      const double* sum = h.SurveyPiece(task).key;
      for (int64_t c = 0; c < h.a.shape.qk_dim; ++c) f.kept_sum[c] += sum[c];
    } else {
      SumKept(h, keys, skip, skip_end, f.kept_sum);
    }
    skip = skip_end;
  }
  return o;
}

void Recentre(const Head& h, Findings* f, const Outliers& o) {
  for (int64_t c = 0; c < h.a.shape.qk_dim; ++c) {
    f->centre[c] = static_cast<float>(f->kept_sum[c] / static_cast<double>(h.keys() - o.count));
  }
  MeasureNorms(h, *f, false);
}

double Drift(const Head& h, const Findings& f, int64_t kept) {
  double square = 0;
  for (int64_t c = 0; c < h.a.shape.qk_dim; ++c) {
    const double x = f.kept_sum[c] / static_cast<double>(std::max<int64_t>(1, kept)) - f.centre[c];
    square += x * x;
  }
  return std::sqrt(square);
}

void GatherOutliers(const Head& h, const Normal& normal, Outliers* o) {
  const int64_t columns = h.a.layout.columns();
  int64_t* index = h.Integers(h.a.at.outliers);
  o->k = reinterpret_cast<float*>(index + kMaxOutliers);
  o->v = o->k + h.a.shape.qk_dim * kMaxOutliers;
  o->padded = RoundUp(o->count, kColumnQuantum);
  if (o->count == 0) return;
  PanelSource source{.rows = h.Keys(),
                     .index = index,
                     .count = o->count,
                     .shift = normal.findings->centre,
                     .multiplier = static_cast<float>(1 / normal.radius)};
  LoadTransposed(source, h.a.shape.qk_dim, o->padded, o->k);
  source = {.rows = h.Values(), .index = index, .count = o->count, .shift = normal.findings->middle};
  LoadRows(source, h.a.shape.v_dim, columns, o->padded, o->v);
}

}  // namespace attenio::approx
