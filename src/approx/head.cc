#include "approx/head.h"

#include <algorithm>
#include <cmath>

#include "approx/exact.h"
#include "approx/parallel_for.h"
#include "approx/survey.h"
#include "base/bits.h"

namespace attenio::approx {
namespace {

RowView KeyView(const void* base, DType type, const Strides& s) {
  return {.base = base, .dtype = type, .outer = s.row, .element = s.element};
}

RowView QueryView(const Head& h, const void* base, DType type, const Strides& s) {
  return {
      .base = base, .dtype = type, .group = h.a.shape.group(), .outer = s.row, .inner = s.head, .element = s.element};
}

double Dot(const RowView& rows, int64_t r, int64_t dim, const float* y) {
  return WithFloatType(rows.dtype, [&](auto* type) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    const T* row = rows.Row<T>(r);
    double sum = 0;
    for (int64_t c = 0; c < dim; ++c) sum += static_cast<double>(ToFloat(row[c * rows.element])) * y[c];
    return sum;
  });
}

void AddOutliers(const Head& h, const Outliers& o, int64_t count, const float* bounds, const WorkerPiece& w) {
  const FeatureKernels& kernels = GetFeatureKernels();
  const int64_t padded = o.padded, columns = h.a.layout.columns();
  std::fill_n(w.weights, kQueryPanel * padded, 0.0f);
  kernels.product({.a = w.x,
                   .a_row = 1,
                   .a_k = kQueryPanel,
                   .b = o.k,
                   .c = w.weights,
                   .stride = padded,
                   .rows = count,
                   .columns = padded,
                   .depth = h.a.shape.qk_dim});
  for (int64_t r = 0; r < RoundUp(count, kRowQuantum); ++r) {
    float* score = w.weights + r * padded;
    float max = 0;
    for (int64_t j = 0; j < o.count; ++j) max = std::max(max, score[j] *= r < count ? bounds[r] : 0);
    w.row_shift[r] = max;
    float sum = 0;
    for (int64_t j = 0; j < o.count; ++j) sum += score[j] = std::exp(score[j] - max);
    std::fill(score + o.count, score + padded, 0.0f);
    const float factor = std::exp(-max);
    w.den[r] = w.den[r] * factor + sum;
    for (int64_t c = 0; c < columns; ++c) w.v[r * columns + c] *= factor;
  }
  kernels.product({.a = w.weights,
                   .a_row = padded,
                   .a_k = 1,
                   .b = o.v,
                   .c = w.v,
                   .stride = columns,
                   .rows = count,
                   .columns = columns,
                   .depth = o.count});
}

}  // namespace

RowView Head::Keys() const { return KeyView(operands.k, a.desc.dtype, a.desc.k); }
RowView Head::Values() const { return KeyView(operands.v, a.desc.dtype, a.desc.v); }
RowView Head::Queries() const { return QueryView(*this, operands.q, a.desc.dtype, a.desc.q); }
RowView Head::Out() const { return QueryView(*this, operands.out, *a.desc.out_dtype, a.desc.out); }
RowView Head::Lse() const {
  return a.desc.lse ? QueryView(*this, operands.lse, DType::kF32, a.desc.lse_strides) : RowView{};
}

WorkerPiece Head::Worker(int worker) const {
  std::byte* at = base + a.at.worker + worker * a.at.worker_bytes;
  const auto take = [&at](int64_t bytes) {
    std::byte* here = at;
    at += RoundUp(bytes, 128);
    return here;
  };
  const auto floats = [&](int64_t n) { return reinterpret_cast<float*>(take(n * 4)); };
  WorkerPiece w;
  w.x = floats(a.shape.qk_dim * kKeyPanel);
  w.v = floats(kKeyPanel * a.layout.columns());
  w.scratch = floats(a.layout.scratch_floats());
  w.coefficients = floats((a.layout.monomials().degree() + 1) * kQueryPanel);
  w.den = floats(3 * kQueryPanel);
  w.row_multiplier = w.den + kQueryPanel;
  w.row_shift = w.den + 2 * kQueryPanel;
  w.index = reinterpret_cast<int64_t*>(take(kKeyPanel * 8));
  w.weights = floats(kQueryPanel * kMaxOutliers);
  return w;
}

KeySums Head::SurveyPiece(int64_t task) const {
  std::byte* piece = base + a.at.surveys + task * a.at.survey_bytes;
  KeySums s;
  s.key = reinterpret_cast<double*>(piece);
  s.value = reinterpret_cast<double*>(piece + RoundUp(a.shape.qk_dim * 8, 128));
  s.value_min = reinterpret_cast<float*>(piece + RoundUp(a.shape.qk_dim * 8, 128) + RoundUp(a.shape.v_dim * 8, 128));
  s.value_max = s.value_min + a.shape.v_dim;
  return s;
}

Findings Survey(const Head& h) {
  const Shape& s = h.a.shape;
  const int64_t tasks = CeilDiv(s.kv_len, kSurveyKeys);
  ParallelFor(h.parallel, tasks, [&](int64_t task, int) {
    const int64_t first = task * kSurveyKeys;
    SurveyKeys(h.Keys().From(first), h.Values().From(first), std::min(kSurveyKeys, s.kv_len - first), s.qk_dim, s.v_dim,
               h.SurveyPiece(task));
  });
  Findings f;
  f.finite = true;
  f.key_sum = reinterpret_cast<double*>(h.base + h.a.at.vectors);
  f.kept_sum = f.key_sum + s.qk_dim;
  f.centre = reinterpret_cast<float*>(f.kept_sum + s.qk_dim);
  f.middle = f.centre + s.qk_dim;
  for (int64_t c = 0; c < s.qk_dim; ++c) {
    double sum = 0;
    for (int64_t t = 0; t < tasks; ++t) sum += h.SurveyPiece(t).key[c];
    f.key_sum[c] = sum;
    f.centre[c] = static_cast<float>(sum / static_cast<double>(s.kv_len));
    f.finite = f.finite && std::isfinite(f.centre[c]);
  }
  for (int64_t c = 0; c < s.v_dim; ++c) {
    double sum = 0;
    float low = h.SurveyPiece(0).value_min[c], high = h.SurveyPiece(0).value_max[c];
    for (int64_t t = 0; t < tasks; ++t) {
      sum += h.SurveyPiece(t).value[c];
      low = std::min(low, h.SurveyPiece(t).value_min[c]);
      high = std::max(high, h.SurveyPiece(t).value_max[c]);
    }
    f.middle[c] = low / 2 + high / 2;
    f.range = std::max(f.range, static_cast<double>(high) - low);
    f.finite = f.finite && std::isfinite(sum) && std::isfinite(high - low);
  }
  return f;
}

void MeasureNorms(const Head& h, const Findings& f, bool queries) {
  const Shape& s = h.a.shape;
  const int64_t key_tasks = CeilDiv(h.keys(), kSurveyKeys);
  const int64_t tasks = key_tasks + (queries ? CeilDiv(h.rows(), kSurveyKeys) : 0);
  const float scale = static_cast<float>(std::abs(*h.a.desc.scale) * (1 + 1e-6));
  ParallelFor(h.parallel, tasks, [&](int64_t task, int) {
    const bool is_key = task < key_tasks;
    const int64_t first = (is_key ? task : task - key_tasks) * kSurveyKeys;
    const int64_t count = std::min(kSurveyKeys, (is_key ? h.keys() : h.rows()) - first);
    float* norm = h.Floats(is_key ? h.a.at.key_norms : h.a.at.query_norms) + first;
    RowNorms((is_key ? h.Keys() : h.Queries()).From(first), count, s.qk_dim, is_key ? f.centre : nullptr, norm);
    if (is_key) return;
    for (int64_t r = 0; r < count; ++r) norm[r] *= scale;
  });
}

Choice ChooseFor(const Head& h) {
  const bool causal = h.a.desc.causal;
  float* top = h.Floats(h.a.at.top_norms);
  std::copy_n(h.Floats(h.a.at.key_norms), h.keys(), top);
  // A causal row may not see an outlier key, so that the radius there is that of all keys.
  const int64_t wanted = causal ? 1 : std::min(h.keys(), kMaxOutliers + 1);
  std::partial_sort(top, top + wanted, top + h.keys(), std::greater<float>());
  float* sample = h.Floats(h.a.at.sample);
  const int64_t stride = CeilDiv(h.rows(), kSampleRows);
  int64_t count = 0;
  for (int64_t s = 0; SampleAt(s, stride) < h.rows(); ++s) {
    const float norm = h.Floats(h.a.at.query_norms)[SampleAt(s, stride)];
    sample[count++] = std::isfinite(norm) ? norm : INFINITY;
  }
  std::sort(sample, sample + count);
  return Choose({.classes = &h.a.classes,
                 .costs = &h.a.costs,
                 .rows = h.rows(),
                 .keys = h.keys(),
                 .query_norms = {sample, static_cast<size_t>(count)},
                 .key_norms = {top, static_cast<size_t>(wanted)},
                 .max_exact_rows = causal ? h.rows() : h.a.max_exact_rows,
                 .always = h.a.mode == ApproxMode::kPolynomial});
}

void AddKeyRange(const Head& h, const Normal& normal, const Outliers& o, Range keys, Range blocks, float* z,
                 int worker) {
  const WorkerPiece w = h.Worker(worker);
  const int64_t* skip = std::lower_bound(o.index, o.index + o.count, keys.begin);
  const int64_t* skip_end = o.index + o.count;
  for (int64_t first = keys.begin; first < keys.end;) {
    int64_t count = 0;
    for (; first < keys.end && count < kKeyPanel; ++first) {
      if (skip != skip_end && *skip == first) {
        ++skip;
      } else {
        w.index[count++] = first;
      }
    }
    PanelSource source{.rows = h.Keys(),
                       .index = w.index,
                       .count = count,
                       .shift = normal.findings->centre,
                       .multiplier = static_cast<float>(1 / normal.radius)};
    LoadTransposed(source, h.a.shape.qk_dim, kKeyPanel, w.x);
    source = {.rows = h.Values(), .index = w.index, .count = count, .shift = normal.findings->middle};
    LoadRows(source, h.a.shape.v_dim, h.a.layout.columns(), kKeyPanel, w.v);
    AddKeys(
        h.a.layout,
        {.x = w.x, .v = w.v, .count = count, .degree = normal.degree, .blocks = blocks, .z = z, .scratch = w.scratch});
  }
}

uint8_t ClassOf(const Head& h, const Normal& normal, const Outliers& o, float query_norm) {
  const double bound = query_norm * normal.radius * (1 + 1e-6);
  const int found = std::isfinite(bound) ? FindClass(h.a.classes, bound, normal.degree) : -1;
  if (found < 0 || found >= kExactRow) return kExactRow;
  if (bound * normal.key_drift > kDrift) return kExactRow;
  // Rounding of an outlier's score becomes a relative error of its weight, which must stay below that of the polynomial.
  const double rounding = h.a.classes[found].p.bound * o.largest * static_cast<double>(h.a.shape.qk_dim + 8) * 0x1p-24;
  return rounding > 0.1 * h.a.classes[found].p.error ? kExactRow : static_cast<uint8_t>(found);
}

void EvaluateRows(const Head& h, const Normal& normal, const Outliers& o, std::span<const int64_t> index,
                  const float* z, const WorkerPiece& w) {
  const int64_t count = static_cast<int64_t>(index.size());
  const double scale = *h.a.desc.scale * normal.radius;
  float bounds[kQueryPanel];
  int degree = 0;
  // All of them: the first block holds degrees 0 and 1, and applies both at degree 0.
  std::fill_n(w.coefficients, (h.a.layout.monomials().degree() + 1) * kQueryPanel, 0.0f);
  for (int64_t r = 0; r < count; ++r) {
    const ExpPolynomial& p = h.a.classes[h.RowClasses()[index[r]]].p;
    for (int k = 0; k <= p.degree; ++k) w.coefficients[k * kQueryPanel + r] = static_cast<float>(p.coefficient[k]);
    bounds[r] = static_cast<float>(p.bound);
    w.row_multiplier[r] = static_cast<float>(scale / p.bound);
    degree = std::max(degree, p.degree);
  }
  LoadTransposed({.rows = h.Queries(), .index = index.data(), .count = count, .row_multiplier = w.row_multiplier},
                 h.a.shape.qk_dim, kQueryPanel, w.x);
  std::fill_n(w.v, kQueryPanel * h.a.layout.columns(), 0.0f);
  std::fill_n(w.den, kQueryPanel, 0.0f);
  std::fill_n(w.row_shift, kQueryPanel, 0.0f);
  ApplyRows(h.a.layout, {.x = w.x,
                         .coefficients = w.coefficients,
                         .count = count,
                         .degree = degree,
                         .state_degree = normal.degree,
                         .z = z,
                         .out = w.v,
                         .den = w.den,
                         .scratch = w.scratch});
  if (o.count > 0) AddOutliers(h, o, count, bounds, w);
}

double CentreScore(const Head& h, const Findings& f, int64_t row) {
  return *h.a.desc.scale * Dot(h.Queries(), row, h.a.shape.qk_dim, f.centre);
}

void WriteRow(const Head& h, const Findings& f, int64_t row, const float* numerator, double den, double log_shift) {
  const RowView out = h.Out();
  const float inverse = static_cast<float>(1 / den);
  WithFloatType(out.dtype, [&](auto* type) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    T* target = const_cast<T*>(out.Row<T>(row));
    for (int64_t c = 0; c < h.a.shape.v_dim; ++c)
      FromFloat(numerator[c] * inverse + f.middle[c], &target[c * out.element]);
  });
  if (!h.a.desc.lse) return;
  *const_cast<float*>(h.Lse().Row<float>(row)) = static_cast<float>(std::log(den) + log_shift + CentreScore(h, f, row));
}

void ReportRow(const Head& h, int64_t row, uint8_t row_class) {
  if (h.report == nullptr) return;
  const int64_t at = h.ReportIndex(row);
  const bool exact = row_class == kExactRow;
  if (h.report->row_bound != nullptr)
    h.report->row_bound[at] = exact ? 0 : static_cast<float>(h.a.classes[row_class].certified);
  if (h.report->row_degree != nullptr)
    h.report->row_degree[at] = exact ? -1 : static_cast<int8_t>(h.a.classes[row_class].p.degree);
  if (exact) {
    ++h.report->exact_rows;
    return;
  }
  const ScoreClass& c = h.a.classes[row_class];
  h.report->degree = std::max(h.report->degree, c.p.degree);
  h.report->certified = std::max(h.report->certified, c.certified);
  h.report->score_bound = std::max(h.report->score_bound, c.p.bound);
}

void RunHeadExactly(const Head& h, const char* reason) {
  RunAll(*h.a.head, h.operands, h.base + h.a.at.exact, h.parallel);
  if (h.report == nullptr) return;
  h.report->reason = reason;
  for (int64_t r = 0; r < h.rows(); ++r) ReportRow(h, r, kExactRow);
}

}  // namespace attenio::approx
