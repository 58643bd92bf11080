#include "cli/accuracy_error.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "cli/approx_call.h"

namespace attenio::cli {
namespace {

double Percentile(std::vector<double> sorted, double p) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<size_t>(
      std::min(static_cast<double>(sorted.size()) - 1, p * static_cast<double>(sorted.size())))];
}

// The last `count` queries of `problem` on its keys, for values that are the unit vectors.
Problem WithUnitValues(const Problem& problem, int64_t count) {
  const AttentionDesc& d = problem.desc;
  Problem p;
  p.q = MakeTensor(FileType::kF32, {1, 1, count, d.qk_dim});
  p.k = MakeTensor(FileType::kF32, {1, 1, d.kv_len, d.qk_dim});
  p.v = MakeTensor(FileType::kF32, {1, 1, d.kv_len, d.kv_len});
  // Head 0 of batch entry 0; 4-D and 3-D tensors hold it at its strides.
  const auto copy = [&](const Tensor& from, int64_t heads, int64_t first, int64_t rows, Tensor* to) {
    const int64_t row_stride = from.rank() == 4 ? d.qk_dim : heads * d.qk_dim;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t c = 0; c < d.qk_dim; ++c)
        to->data<float>()[i * d.qk_dim + c] = static_cast<float>(from.At((first + i) * row_stride + c));
    }
  };
  copy(problem.q, d.q_heads, d.q_len - count, count, &p.q);
  copy(problem.k, d.kv_heads, 0, d.kv_len, &p.k);
  for (int64_t j = 0; j < d.kv_len; ++j) p.v.data<float>()[j * d.kv_len + j] = 1;
  for (Tensor* t : {&p.q, &p.k, &p.v}) *t = Convert(*t, problem.q.type);
  DescribeQkv(&p, 0, 0);
  p.desc.scale = d.scale;
  p.desc.causal = d.causal;
  p.desc.offset = d.offset + d.q_len - count;
  AllocateOutputs(&p, DType::kF32);
  return p;
}

// Softmax weights of query i of a problem of one head, in f64.
std::vector<double> Weights(const Problem& p, int64_t i) {
  const AttentionDesc& d = p.desc;
  const double scale = d.scale.value_or(1 / std::sqrt(static_cast<double>(d.qk_dim)));
  const int64_t end = d.causal ? std::clamp<int64_t>(i + d.offset + 1, 0, d.kv_len) : d.kv_len;
  std::vector<double> weights(static_cast<size_t>(d.kv_len));
  double largest = -INFINITY, sum = 0;
  for (int64_t j = 0; j < end; ++j) {
    double score = 0;
    for (int64_t c = 0; c < d.qk_dim; ++c) score += p.q.At(i * d.qk_dim + c) * p.k.At(j * d.qk_dim + c);
    largest = std::max(largest, weights[static_cast<size_t>(j)] = scale * score);
  }
  for (int64_t j = 0; j < end; ++j)
    sum += weights[static_cast<size_t>(j)] = std::exp(weights[static_cast<size_t>(j)] - largest);
  for (double& w : weights) w /= sum;
  return weights;
}

}  // namespace

double Reference::Range(const AttentionDesc& d, const RowIndex& row, int64_t column) const {
  return ranges[static_cast<size_t>((row.batch * d.kv_heads + row.head / (d.q_heads / d.kv_heads)) * d.v_dim + column)];
}

Reference ComputeReference(Problem* problem, const Parallel& parallel) {
  std::mt19937_64 random(1);
  Reference r;
  r.rows = ChooseRows(problem->desc, 1.5e8, &random);  // about a second
  r.want.resize(r.rows.size());
  const Operands operands = problem->operands();
  r.ranges = ValueRanges(problem->desc, operands);
  struct Job {
    Reference* r;
    const AttentionDesc* d;
    const Operands* o;
  } job{&r, &problem->desc, &operands};
  parallel.run(
      parallel.context, static_cast<int64_t>(r.rows.size()),
      [](void* argument, int64_t i, int) {
        const Job& j = *static_cast<Job*>(argument);
        const RowIndex& row = j.r->rows[static_cast<size_t>(i)];
        j.r->want[static_cast<size_t>(i)] = ReferenceRow(*j.d, *j.o, row.batch, row.head, row.query);
      },
      &job);
  return r;
}

Errors Compare(const Problem& problem, const Reference& reference) {
  const AttentionDesc& d = problem.desc;
  Errors e;
  double squares = 0, difference = 0, norm = 0;
  int64_t elements = 0;
  std::vector<double> sorted;  // largest error of each row
  for (size_t i = 0; i < reference.rows.size(); ++i) {
    const RowIndex& row = reference.rows[i];
    double worst = 0, beyond_rounding = 0;
    for (int64_t c = 0; c < d.v_dim; ++c) {
      const int64_t at = problem.out.rank() == 4
                             ? ((row.batch * d.q_heads + row.head) * d.q_len + row.query) * d.v_dim + c
                             : ((row.batch * d.q_len + row.query) * d.q_heads + row.head) * d.v_dim + c;
      const double got = problem.out.At(at), want = reference.want[i].out[static_cast<size_t>(c)];
      const double range = reference.Range(d, row, c);
      if (!std::isfinite(got) || !std::isfinite(want)) {
        e.not_finite += std::isfinite(want) ? 1 : 0;
        continue;
      }
      difference += (got - want) * (got - want);
      norm += want * want;
      const double error = range > 0 ? std::abs(got - want) / range : 0;
      worst = std::max(worst, error);
      const double rounding = 3 * UnitRoundoff(DType::kF32) * std::abs(want);
      if (range > 0) beyond_rounding = std::max(beyond_rounding, (std::abs(got - want) - rounding) / range);
      squares += error * error;
      ++elements;
    }
    sorted.push_back(worst);
    e.beyond_rounding.push_back(beyond_rounding);
  }
  std::sort(sorted.begin(), sorted.end());
  e.max = sorted.empty() ? 0 : sorted.back();
  e.p50 = Percentile(sorted, 0.5);
  e.p90 = Percentile(sorted, 0.9);
  e.p99 = Percentile(sorted, 0.99);
  e.rmse = elements > 0 ? std::sqrt(squares / static_cast<double>(elements)) : 0;
  e.relative = norm > 0 ? std::sqrt(difference / norm) : 0;
  return e;
}

std::optional<double> WeightDivergence(const Problem& problem, const std::function<bool(Problem*)>& run) {
  constexpr int64_t kRows = 32;
  constexpr double kNegligible = 1e-30;
  const AttentionDesc& d = problem.desc;
  if (d.kv_len > kMostKlKeys || d.q_len < 1 || d.kv_len < 1) return std::nullopt;
  Problem p = WithUnitValues(problem, std::min(kRows, d.q_len));
  if (!run(&p)) return std::nullopt;
  double sum = 0;
  for (int64_t i = 0; i < p.desc.q_len; ++i) {
    const std::vector<double> want = Weights(p, i);
    double total = 0;  // f32 rounds a sum of 1
    for (int64_t j = 0; j < d.kv_len; ++j) total += p.out.At(i * d.kv_len + j);
    for (int64_t j = 0; j < d.kv_len; ++j) {
      const double w = want[static_cast<size_t>(j)], got = p.out.At(i * d.kv_len + j) / total;
      if (w < kNegligible) continue;
      if (!(got > 0)) return std::nullopt;
      sum += w * std::log(w / got);
    }
  }
  return std::max(0.0, sum / static_cast<double>(p.desc.q_len));
}

}  // namespace attenio::cli
