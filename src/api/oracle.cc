#include "api/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/validate.h"
#include "base/bits.h"

namespace attenio {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Load(const void* base, DType type, int64_t element) {
  if (type == DType::kBool) return static_cast<const uint8_t*>(base)[element];
  return WithFloatType(type, [&](auto* t) { return double{ToFloat(static_cast<decltype(t)>(base)[element])}; });
}

struct Row {
  const AttentionDesc& d;
  const Operands& o;
  int64_t batch, head, query, position;

  int64_t kv_head() const { return head / (d.q_heads / d.kv_heads); }

  // What the mask adds to the score of a key; -inf excludes it.
  double Mask(int64_t key) const {
    const MaskDesc& m = d.mask;
    if (!m.dtype) return 0;
    if (key >= m.kv_len) return -kInfinity;
    const double value = Load(o.mask, *m.dtype, batch * m.batch + head * m.head + query * m.query + key * m.key);
    return *m.dtype != DType::kBool ? value : value != 0 ? 0 : -kInfinity;
  }

  bool InBand(int64_t key) const {
    if (d.causal && key > position) return false;
    if (d.window_left != kUnbounded && key < position - d.window_left) return false;
    return d.window_right == kUnbounded || key <= position + d.window_right;
  }

  double Score(int64_t key, double* magnitude) const {
    const int64_t q = batch * d.q.batch + head * d.q.head + query * d.q.row;
    const int64_t k = batch * d.k.batch + kv_head() * d.k.head + key * d.k.row;
    double s = 0, sum = 0;
    for (int64_t c = 0; c < d.qk_dim; ++c) {
      const double term = Load(o.q, d.dtype, q + c * d.q.element) * Load(o.k, d.dtype, k + c * d.k.element);
      s += term;
      sum += std::abs(term);
    }
    *magnitude = std::abs(*d.scale) * sum;
    s *= *d.scale;
    return d.softcap > 0 ? d.softcap * std::tanh(s / d.softcap) : s;
  }

  double Alibi(int64_t key) const { return d.alibi ? double{o.alibi[head]} * static_cast<double>(key - position) : 0; }

  double Value(int64_t key, int64_t c) const {
    return Load(o.v, d.dtype, batch * d.v.batch + kv_head() * d.v.head + key * d.v.row + c * d.v.element);
  }
};

// Half of the smallest positive number of a type.
double HalfSmallest(DType t) { return t == DType::kF16 ? 0x1p-25 : t == DType::kBF16 ? 0x1p-134 : 0x1p-150; }

}  // namespace

OracleRow ReferenceRow(const AttentionDesc& desc, const Operands& operands, int64_t batch, int64_t q_head,
                       int64_t query) {
  const Result<AttentionDesc> resolved = Resolve(desc);
  const AttentionDesc& d = resolved.ok() ? *resolved : desc;
  const int64_t position = query + (d.offsets != nullptr ? d.offsets[batch] : d.offset);
  const Row row{d, operands, batch, q_head, query, position};
  const int64_t kv_len = d.kv_lens != nullptr ? d.kv_lens[batch] : d.kv_len;
  OracleRow result;
  for (auto* column : {&result.out, &result.magnitude, &result.values})
    column->assign(static_cast<size_t>(d.v_dim), 0.0);
  struct Key {
    int64_t index;
    double score, bias;
    bool counts = false;
  };
  std::vector<Key> keys;
  double max = d.sinks ? double{operands.sinks[q_head]} : -kInfinity;
  for (int64_t j = 0; j < kv_len; ++j) {
    const double mask = row.InBand(j) ? row.Mask(j) : -kInfinity;
    if (mask == -kInfinity) continue;
    double magnitude = 0;
    const double bias = row.Alibi(j) + mask;
    const double s = row.Score(j, &magnitude) + bias;
    result.score_bound = std::fmax(result.score_bound, magnitude);
    if (s == -kInfinity) continue;
    keys.push_back({j, s, std::abs(row.Alibi(j)) + std::abs(mask)});
    max = s > max || std::isnan(s) ? s : max;
  }
  result.allowed = static_cast<int64_t>(keys.size());
  result.lse = max;
  if (keys.empty()) return result;
  const bool endless =
      d.sinks && operands.sinks[q_head] == kInfinity && max == kInfinity;  // a sink that takes all the weight
  if (endless && std::none_of(keys.begin(), keys.end(), [](const Key& k) { return !(k.score < kInfinity); }))
    return result;
  double sum = d.sinks ? std::exp(operands.sinks[q_head] - max) : 0;
  double largest = -kInfinity;
  for (const Key& key : keys) largest = std::fmax(largest, key.score);
  for (Key& key : keys) {
    key.counts = key.score >= largest - 40 * 0.6931471805599453;  // >=: at 1e18 that difference is lost
    sum += key.score = std::exp(key.score - max);
  }
  double bias = 0;
  for (const Key& key : keys) {
    // Beside the lowest finite numbers the product is lost in f64 as it is in f32: nothing differs.
    if (key.counts && key.bias < 0x1p77) bias = std::fmax(bias, key.bias);
    for (int64_t c = 0; c < d.v_dim; ++c) {
      const double value = row.Value(key.index, c), term = key.score / sum * value;
      result.values[static_cast<size_t>(c)] += std::abs(value);
      result.out[static_cast<size_t>(c)] += term;
      result.magnitude[static_cast<size_t>(c)] += std::abs(term);
    }
  }
  result.score_bound += bias;
  // How far the sink lies above the keys is known as well as that difference is in f32.
  if (d.sinks && operands.sinks[q_head] > largest && operands.sinks[q_head] < kInfinity)
    result.score_bound += operands.sinks[q_head] - largest;
  result.lse = max + std::log(sum);
  return result;
}

double SumDrift(int64_t keys) {
  constexpr int64_t kShortest = 64, kLongest = 256;  // key blocks
  const auto longest = static_cast<double>(std::min(keys, kLongest));
  return 0.375 * (longest + (keys > kLongest ? static_cast<double>(keys) / kShortest : 0));
}

double ErrorBound(const OracleRow& row, int64_t c, DType out_type, DType probability_type) {
  const double magnitude = row.magnitude[static_cast<size_t>(c)];
  const double step = probability_type == DType::kBF16 ? 0x1p-126 : 0x1p-149;
  return UnitRoundoff(out_type) * std::abs(row.out[static_cast<size_t>(c)]) +
         2 * UnitRoundoff(probability_type) * magnitude +
         (magnitude == 0
              ? 0
              : (16 * (1 + row.score_bound) + SumDrift(row.allowed)) * UnitRoundoff(DType::kF32) * magnitude) +
         HalfSmallest(out_type) + 0x1p-126 * row.values[static_cast<size_t>(c)] +
         static_cast<double>(row.allowed) * step;
}

}  // namespace attenio
