// The AMX kernel over emulated tiles: the source is that of the real one.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/math.h"
#include "kernels/cpu.h"
#include "kernels/kernels.h"
#include "support/emulated_tiles.h"

#include "kernels/targets.h"  // before Highway

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "support/amx_emulated.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#if HWY_ARCH_X86_64 && HWY_TARGET == HWY_AVX3
#include "kernels/amx_step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {

inline const KernelSet* AmxEmulatedTable() {
  static constexpr KernelSet kTable = AmxTable<testing::EmulatedTiles>("amx-emulated");
  return &kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();
#endif  // AVX3

#if HWY_ONCE
namespace attenio::testing {

bool AddEmulatedAmxKernel() {
#if HWY_ARCH_X86_64 && (HWY_TARGETS & HWY_AVX3)
  if ((hwy::SupportedTargets() & HWY_AVX3) == 0 || !CpuHasAvx512Bf16()) return false;
  for (const KernelChoice& choice : NamedKernels()) {
    if (std::string_view(choice.name) == "amx-emulated") return true;
  }
  const KernelSet* kernel = N_AVX3::AmxEmulatedTable();
  NamedKernels().push_back({.kernel = kernel, .name = kernel->name, .reason = ""});
  return true;
#else
  return false;
#endif
}

}  // namespace attenio::testing
#endif
