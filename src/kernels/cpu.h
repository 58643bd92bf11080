// What this processor and operating system offer beyond Highway's targets.
#ifndef ATTENIO_SRC_KERNELS_CPU_H_
#define ATTENIO_SRC_KERNELS_CPU_H_

namespace attenio {

// AVX512_BF16 (CPUID leaf 7.1, EAX bit 5). That zmm registers are saved by the system is what Highway's AVX3 target tells.
bool CpuHasAvx512Bf16();

// nullptr when this process may use bf16 tiles of 16 rows x 64 bytes (AMX), else why not. The first call asks Linux for the
// tile registers, for all threads of the process and for good; signal frames grow by 8 KiB with it. Any thread, computed once.
const char* WhyNoAmx();

}  // namespace attenio

#endif  // ATTENIO_SRC_KERNELS_CPU_H_
