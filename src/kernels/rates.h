// Rates of one core that the fused multiply-add loop (peak.h) does not show: exponentials by the kernels' own code, bf16 products
// on the vector unit and on the tensor unit. For `attenio calibrate`.
#ifndef ATTENIO_SRC_KERNELS_RATES_H_
#define ATTENIO_SRC_KERNELS_RATES_H_

#include <cstdint>

namespace attenio {

// Sum of 2^x over `count` values (a multiple of 64, 64-byte aligned); NaN where this build has no vectors.
float SumOfExp2(const float* in, int64_t count);

// A loop of independent products in registers; flops_per_iteration = 0 when this processor has no such unit.
struct ProductLoop {
  double flops_per_iteration = 0;
  float (*run)(int64_t iterations) = nullptr;
};
ProductLoop DotBf16Loop();
// Needs the permission of the operating system for the tile registers, which is asked for here.
ProductLoop TensorBf16Loop();
// The same with both operands of a 2 x 2 block of tiles loaded from L1 for its four products, as a kernel must.
ProductLoop TensorBf16LoadLoop();

// `count` (a multiple of 8) additions, each waiting for the one before: a core cycle each, whatever the clock. Returns how many
// were done; 0 on processors where this is not known.
int64_t DependentAdds(int64_t count);

}  // namespace attenio

#endif  // ATTENIO_SRC_KERNELS_RATES_H_
