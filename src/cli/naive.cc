#include "cli/naive.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/bits.h"
#include "base/math.h"

namespace attenio::cli {
namespace {

constexpr int64_t kRowsPerTask = 16;

template <class T>
struct Naive {
  const AttentionDesc& d;
  const Operands& o;
  Range rows;
  float scale;

  // Keys that query i may attend.
  Range Allowed(int64_t i) const {
    const int64_t position = i + d.offset;
    Range keys{0, d.kv_len};
    if (d.causal) keys.end = std::min(keys.end, position + 1);
    if (d.window_left != kUnbounded) keys.begin = std::max(keys.begin, position - d.window_left);
    if (d.window_right != kUnbounded) keys.end = std::min(keys.end, position + d.window_right + 1);
    return keys;
  }

  void Row(int64_t row, std::vector<float>* scores, std::vector<float>* sum) const {
    const int64_t i = row % d.q_len, head = row / d.q_len % d.q_heads, batch = row / (d.q_len * d.q_heads);
    const int64_t kv = batch * d.kv_heads + head / (d.q_heads / d.kv_heads);
    const T* q = static_cast<const T*>(o.q) + row * d.qk_dim;
    const T* k = static_cast<const T*>(o.k) + kv * d.kv_len * d.qk_dim;
    const T* v = static_cast<const T*>(o.v) + kv * d.kv_len * d.v_dim;
    T* out = static_cast<T*>(o.out) + row * d.v_dim;
    const Range keys = Allowed(i);
    float max = -std::numeric_limits<float>::infinity(), total = 0;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      float s = 0;
      for (int64_t c = 0; c < d.qk_dim; ++c) s += ToFloat(q[c]) * ToFloat(k[j * d.qk_dim + c]);
      s *= scale;
      if (d.softcap > 0) s = static_cast<float>(d.softcap) * std::tanh(s / static_cast<float>(d.softcap));
      (*scores)[static_cast<size_t>(j)] = s;
      max = std::max(max, s);
    }
    std::fill(sum->begin(), sum->end(), 0.0f);
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const float p = std::exp((*scores)[static_cast<size_t>(j)] - max);
      total += p;
      for (int64_t c = 0; c < d.v_dim; ++c) (*sum)[static_cast<size_t>(c)] += p * ToFloat(v[j * d.v_dim + c]);
    }
    for (int64_t c = 0; c < d.v_dim; ++c) FromFloat(total > 0 ? (*sum)[static_cast<size_t>(c)] / total : 0, out + c);
  }

  void Task(int64_t task) const {
    std::vector<float> scores(static_cast<size_t>(d.kv_len)), sum(static_cast<size_t>(d.v_dim));
    const int64_t begin = rows.begin + task * kRowsPerTask;
    for (int64_t row = begin; row < std::min(begin + kRowsPerTask, rows.end); ++row) Row(row, &scores, &sum);
  }
};

}  // namespace

void NaiveAttention(const AttentionDesc& desc, const Operands& operands, Range rows, const Parallel& parallel) {
  WithFloatType(desc.dtype, [&](auto* type) {
    using T = std::remove_cvref_t<decltype(*type)>;
    const double scale = desc.scale ? *desc.scale : 1 / std::sqrt(static_cast<double>(desc.qk_dim));
    Naive<T> naive{desc, operands, rows, static_cast<float>(scale)};
    parallel.run(parallel.context, CeilDiv(rows.size(), kRowsPerTask),
                 [](void* n, int64_t task, int) { static_cast<Naive<T>*>(n)->Task(task); }, &naive);
  });
}

}  // namespace attenio::cli
