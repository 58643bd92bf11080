// The kernel for AMX: bf16 products on the tensor unit.
#ifndef ATTENIO_SRC_KERNELS_AMX_BF16_H_
#define ATTENIO_SRC_KERNELS_AMX_BF16_H_

#include <vector>

#include "kernels/kernels.h"

namespace attenio {

// bf16-amx, with the reason where it cannot run; empty where it could not be compiled. As bf16-avx512 (bf16.h): bf16, any dims,
// probabilities rounded to bf16, subnormal numbers are zero. Asks for the tile registers of the process (cpu.h).
std::vector<KernelChoice> AmxBf16Kernels();

}  // namespace attenio

#endif  // ATTENIO_SRC_KERNELS_AMX_BF16_H_
