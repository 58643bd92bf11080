// The kernel table for AMX; the code is in amx_step-inl.h.
#include "kernels/amx_bf16.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/math.h"
#include "kernels/amx_tile.h"
#include "kernels/cpu.h"
#include "kernels/kernels.h"

#include "kernels/targets.h"  // before Highway

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/amx_bf16.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#if HWY_ARCH_X86_64 && HWY_TARGET == HWY_AVX3
#include "kernels/amx_step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {

inline const KernelSet* AmxBf16Table() {
  static constexpr KernelSet kTable = AmxTable<HardwareTiles>("bf16-amx");
  return &kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();
#endif  // AVX3

#if HWY_ONCE
namespace attenio {

std::vector<KernelChoice> AmxBf16Kernels() {
  std::vector<KernelChoice> list;
#if HWY_ARCH_X86_64 && (HWY_TARGETS & HWY_AVX3)
  // The softmax between the products is AVX-512, and rounds with AVX512_BF16.
  const char* why = WhyNoAmx();
  if (why == nullptr && ((hwy::SupportedTargets() & HWY_AVX3) == 0 || !CpuHasAvx512Bf16())) {
    why = "CPU has AMX, but not AVX512_BF16";
  }
  const KernelSet* kernel = N_AVX3::AmxBf16Table();
  list.push_back({.kernel = why == nullptr ? kernel : nullptr, .name = kernel->name, .reason = why == nullptr ? "" : why});
#endif
  return list;
}

}  // namespace attenio
#endif
