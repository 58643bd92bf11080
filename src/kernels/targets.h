// Which Highway targets the kernels are compiled for; included before foreach_target.h.
#ifndef ATTENIO_SRC_KERNELS_TARGETS_H_
#define ATTENIO_SRC_KERNELS_TARGETS_H_

// Left out on x86: everything after AVX3 (bits 0-7 in every Highway version; those targets differ in integer, bf16 and f16
// instructions that the kernels do not use through Highway) and SSSE3 (bit 12). They would cost build time only.
#if defined(__x86_64__) && !defined(HWY_DISABLED_TARGETS)
#define HWY_DISABLED_TARGETS (0xffLL | 1LL << 12)
#endif

#endif  // ATTENIO_SRC_KERNELS_TARGETS_H_
