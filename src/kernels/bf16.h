// Kernels that multiply bf16 pairs with VDPBF16PS (AVX512_BF16): twice the products of an f32 FMA per instruction.
#ifndef ATTENIO_SRC_KERNELS_BF16_H_
#define ATTENIO_SRC_KERNELS_BF16_H_

#include <vector>

#include "kernels/kernels.h"

namespace attenio {

// bf16-avx512, with the reason where it cannot run; empty where it could not be compiled. Takes bf16 and any dims. Products are
// exact and summed in f32; probabilities are rounded to bf16 (to nearest even), their sums are not. The instruction takes
// subnormal numbers for zero, in and out: at most 2^-126 per key of an output, and 2^-126 sum_c(|q_c| + |k_c|) of a score.
// Packed buffers, scratch and `out` rows begin at 64-byte boundaries.
std::vector<KernelChoice> Bf16Kernels();

}  // namespace attenio

#endif  // ATTENIO_SRC_KERNELS_BF16_H_
