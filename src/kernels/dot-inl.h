// The two AVX512_BF16 instructions that the kernels need. As assembly, because no file is compiled for that extension (a
// function shared by the linker could then reach a processor without it): callers check CpuHasAvx512Bf16() once.
#if defined(ATTENIO_SRC_KERNELS_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTENIO_SRC_KERNELS_DOT_INL_H_
#undef ATTENIO_SRC_KERNELS_DOT_INL_H_
#else
#define ATTENIO_SRC_KERNELS_DOT_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DPair = hn::FixedTag<uint32_t, 16>;  // a lane holds two bf16: the even one of a pair in the low half
using VPair = hn::Vec<DPair>;
using VSum = hn::Vec<hn::FixedTag<float, 16>>;

// sum + a.low * b.low + a.high * b.high per lane.
HWY_INLINE VSum DotAdd(VSum sum, VPair a, VPair b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}

// 32 numbers in order to bf16, to nearest even; subnormal ones become zero, NaN stays NaN.
HWY_INLINE VPair RoundPairs(VSum first, VSum second) {
  VPair pairs;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(pairs.raw) : "v"(first.raw), "v"(second.raw));
  return pairs;
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_DOT_INL_H_
