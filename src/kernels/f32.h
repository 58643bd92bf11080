// The f32 kernels written with Highway: one per instruction set that this build was compiled for.
#ifndef ATTENIO_SRC_KERNELS_F32_H_
#define ATTENIO_SRC_KERNELS_F32_H_

#include <vector>

#include "kernels/kernels.h"

namespace attenio {

// Best first, named f32-avx512, f32-avx2, f32-sse4, f32-neon. They take f32, bf16 and f16 (converted while packing) and any
// dims. Packed buffers, scratch and `out` rows begin at 64-byte boundaries. Empty where only scalar code could be compiled.
std::vector<KernelChoice> F32Kernels();

}  // namespace attenio

#endif  // ATTENIO_SRC_KERNELS_F32_H_
