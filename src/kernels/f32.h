// The f32 kernels written with Highway: one per instruction set that this build was compiled for.
#ifndef ATTENIO_SRC_KERNELS_F32_H_
#define ATTENIO_SRC_KERNELS_F32_H_

#include <vector>

#include "kernels/kernels.h"

namespace attenio {

// Best first, named f32-avx512, f32-avx2, f32-sse4, f32-neon. They take f32, bf16 and f16 (converted while packing) and any
// dims. Packed buffers, scratch and `out` rows begin at 64-byte boundaries. Empty where only scalar code could be compiled.
//
// Measured on Zen 4 (32 KiB L1, 1 MiB L2), d = 64 and 128, n = 4096: key blocks of 128 to 256 with query tiles of about 400 rows
// are best and flat; 28-row tiles lose 5-13 % (K and V cross the L2 boundary once per tile). The score panels (14 x keys x 4
// bytes), not a strip, are what has to stay in L1: strips of one or more register tiles measure the same, because K and V
// stream from L2 at 5 bytes a cycle, a sixth of what it gives.
std::vector<KernelChoice> F32Kernels();

}  // namespace attenio

#endif  // ATTENIO_SRC_KERNELS_F32_H_
