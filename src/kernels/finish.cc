// Running state to output. Once per row and call, so plain C++ does: 1/kv_len of the work of the products.
#include <cmath>
#include <limits>

#include "base/bits.h"
#include "kernels/kernels.h"

namespace attenio {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Weight {
  float inverse_sum;  // what O is multiplied by
  float lse;          // natural
};

// A row whose sum is 0 had no allowed key (its maximum is -inf): output 0. NaN sums stay NaN.
Weight RowWeight(const FinishArgs& args, int64_t row) {
  const float unit = args.exp_scale * 0.693147180559945f;  // natural units per unit of `max`
  const float max = args.max[row] == -kInfinity ? -kInfinity : args.max[row] * unit;
  const float sum = args.sum[row];
  if (args.sink == nullptr) {
    if (sum == 0) return {0, -kInfinity};
    return {1 / sum, max + std::log(sum)};
  }
  const float sink = args.sink[row];
  if (sum == 0) return {0, sink};
  if (!(sink > max)) {  // also NaN and -inf sinks
    const float total = sum + (sink == -kInfinity ? 0.0f : std::exp(sink - max));
    return {1 / total, max + std::log(total)};
  }
  // Relative to the sink, which may be larger than max by more than exp can hold.
  const float shrink = std::exp(max - sink);
  const float total = sum * shrink + 1;
  return {shrink / total, sink + std::log(total)};
}

template <class T>
void Finish(const FinishArgs& args) {
  for (int64_t r = 0; r < args.rows; ++r) {
    const Weight w = RowWeight(args, r);
    T* target = const_cast<T*>(args.target.Row<T>(r));
    const float* out = args.out + r * args.out_stride;
    for (int64_t c = 0; c < args.v_dim; ++c) {
      FromFloat(args.sum[r] == 0 ? 0.0f : out[c] * w.inverse_sum, target + c * args.target.element);
    }
    if (args.lse.base != nullptr) *const_cast<float*>(args.lse.Row<float>(r)) = w.lse;
  }
}

}  // namespace

void FinishRows(const FinishArgs& args) {
  WithFloatType(args.target.dtype, [&](auto* type) {
    Finish<std::remove_const_t<std::remove_pointer_t<decltype(type)>>>(args);
  });
}

}  // namespace attenio
