// The plain C++ kernel: what every other kernel must equal, for any quantum. It is the fallback where no SIMD target is
// available, and with odd quanta (1x1, 3x5) it shows that executor and schedule do not lean on powers of two.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bits.h"
#include "base/math.h"
#include "kernels/kernels.h"

namespace attenio {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Packed form: rows one after the other as f32, padded with zero rows to the quantum.
template <int64_t kQuantum>
bool PackRows(const PackArgs& args) {
  float* out = static_cast<float*>(args.packed);
  bool finite = true;
  WithFloatType(args.source.dtype, [&](auto* type) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
    for (int64_t r = 0; r < args.rows; ++r) {
      const T* row = args.source.Row<T>(r);
      for (int64_t c = 0; c < args.dim; ++c) {
        const float x = ToFloat(row[c * args.source.element]) * args.multiplier;
        finite &= std::isfinite(x);
        out[r * args.dim + c] = x;
      }
    }
  });
  const int64_t padded = RoundUp(args.rows, kQuantum);
  std::fill(out + args.rows * args.dim, out + padded * args.dim, 0.0f);
  return finite;
}

float MaskValue(const RowView& mask, int64_t row, int64_t key) {
  const int64_t at = mask.Offset(row) + key * mask.element;
  if (mask.dtype == DType::kBool) return static_cast<const uint8_t*>(mask.base)[at] ? 0.0f : -kInfinity;
  return WithFloatType(mask.dtype, [&](auto* type) { return ToFloat(static_cast<decltype(type)>(mask.base)[at]); });
}

// The modified score of an absolute key; -inf when the key is excluded, whatever the raw score holds.
float ModifiedScore(const Modifiers& m, int64_t row, int64_t key, float score) {
  if (m.begin != nullptr && (key < m.begin[row] || key >= m.end[row])) return -kInfinity;
  if (m.softcap > 0) score = m.softcap * std::tanh(score / m.softcap);
  if (m.slope != nullptr) score += m.slope[row] * static_cast<float>(key - m.position[row]);
  if (m.mask.base != nullptr) {
    const float value = key < m.mask_keys ? MaskValue(m.mask, row, key) : -kInfinity;
    score = value == -kInfinity ? -kInfinity : score + value;
  }
  return score;
}

// Scores of one row to `scores`; returns their maximum over the old one, NaN left out.
float RowScores(const BlockArgs& a, int64_t row, float* scores) {
  const float* q = static_cast<const float*>(a.q) + row * a.qk_dim;
  float max = a.max[row];
  for (int64_t j = a.keys_begin; j < a.keys_end; ++j) {
    const float* k = static_cast<const float*>(a.k) + j * a.qk_dim;
    float s = 0;
    for (int64_t c = 0; c < a.qk_dim; ++c) s += q[c] * k[c];
    if (a.modifiers != nullptr) s = ModifiedScore(*a.modifiers, row, a.first_key + j, s);
    scores[j - a.keys_begin] = s;
    if (s > max) max = s;
  }
  return max;
}

void RowUpdate(const BlockArgs& a, int64_t row, float* scores) {
  const float old_max = a.max[row];
  const float new_max = RowScores(a, row, scores);
  // With every key masked so far the reference is 0: exp(-inf - 0) = 0, where -inf - -inf would be NaN.
  const float reference = new_max == -kInfinity ? 0.0f : new_max;
  float sum = 0;
  for (int64_t j = 0; j < a.keys_end - a.keys_begin; ++j) {
    // A score of -inf is a key that contributes nothing, also where the reference is infinite: -0 marks it, because an
    // attended key whose weight underflows to +0 still passes a NaN or infinity of its value on.
    float p = scores[j] == -kInfinity ? -0.0f : std::exp2((scores[j] - reference) * a.exp_scale);
    if (std::abs(p) < std::numeric_limits<float>::min()) p = std::copysign(0.0f, p);  // NaN stays
    scores[j] = p;
    sum += p;
  }
  const float rescale = old_max == -kInfinity ? 0.0f : std::exp2((old_max - reference) * a.exp_scale);
  a.max[row] = new_max;
  a.sum[row] = a.sum[row] * rescale + sum;
  float* out = a.out + row * a.out_stride;
  for (int64_t c = 0; c < a.v_dim; ++c) {
    float acc = 0;  // from zero per block, then added: a long sequential sum loses accuracy on sink-like rows
    for (int64_t j = a.keys_begin; j < a.keys_end; ++j) {
      const float p = scores[j - a.keys_begin];
      if (!std::signbit(p)) acc += p * static_cast<const float*>(a.v)[j * a.v_dim + c];
    }
    out[c] = out[c] * rescale + acc;
  }
}

void Block(const BlockArgs& args) {
  for (int64_t r = 0; r < args.rows; ++r) RowUpdate(args, r, static_cast<float*>(args.scratch));
}

const char* Accepts(DType dtype, int64_t, int64_t) {
  return dtype == DType::kBool ? "q, k and v must be floating point" : nullptr;
}

int64_t RowBytes(int64_t dim) { return dim * 4; }

int64_t ScratchBytes(int64_t, int64_t block_keys, int64_t, int64_t) { return block_keys * 4; }

template <int64_t kRows, int64_t kKeys>
constexpr KernelSet Plain(const char* name) {
  return {.name = name,
          .quantum = {kRows, kKeys, 1},
          .probability_type = DType::kF32,
          .accepts = Accepts,
          .q_row_bytes = RowBytes,
          .k_row_bytes = RowBytes,
          .v_row_bytes = RowBytes,
          .scratch_bytes = ScratchBytes,
          .pack_q = [](const PackArgs& args) { PackRows<kRows>(args); },
          .pack_k = [](const PackArgs& args) { PackRows<kKeys>(args); },
          .pack_v = PackRows<kKeys>,
          .block = Block};
}

constexpr KernelSet kPlain = Plain<4, 8>("plain");
constexpr KernelSet kPlain1x1 = Plain<1, 1>("plain-1x1");
constexpr KernelSet kPlain3x5 = Plain<3, 5>("plain-3x5");

}  // namespace

const KernelSet& PlainKernel() { return kPlain; }
const KernelSet& PlainKernel1x1() { return kPlain1x1; }
const KernelSet& PlainKernel3x5() { return kPlain3x5; }

}  // namespace attenio
