// What this processor and operating system offer beyond Highway's targets.
#ifndef ATTENIO_SRC_KERNELS_CPU_H_
#define ATTENIO_SRC_KERNELS_CPU_H_

namespace attenio {

// AVX512_BF16 (CPUID leaf 7.1, EAX bit 5). That zmm registers are saved by the system is what Highway's AVX3 target tells.
bool CpuHasAvx512Bf16();

}  // namespace attenio

#endif  // ATTENIO_SRC_KERNELS_CPU_H_
