// Kernel tables for every Highway target; the code is in the -inl.h files.
#include "kernels/f32.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/bits.h"
#include "base/math.h"
#include "kernels/kernels.h"

#include "kernels/targets.h"  // before Highway

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/f32.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// Vectors of unknown length (SVE, RVV) cannot be kept in arrays of accumulators, and scalar code is what the plain kernel is.
#undef ATTENIO_F32_SIMD
#define ATTENIO_F32_SIMD (!HWY_HAVE_SCALABLE && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)

#if ATTENIO_F32_SIMD
#include "kernels/pack-inl.h"
#include "kernels/step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {

inline const char* Accepts(DType dtype, int64_t, int64_t) {
  return dtype == DType::kBool ? "takes f32, bf16 and f16" : nullptr;
}
inline int64_t QkRowBytes(int64_t qk_dim) { return qk_dim * 4; }
inline int64_t VRowBytes(int64_t v_dim) { return RoundUp(v_dim, kLanes) * 4; }

inline const KernelSet* Table() {
  static constexpr KernelSet kTable = {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
      .name = "f32-avx512",
#elif HWY_TARGET == HWY_AVX2
      .name = "f32-avx2",
#elif HWY_TARGET == HWY_SSE4
      .name = "f32-sse4",
#elif HWY_ARCH_ARM
      .name = "f32-neon",
#else
      .name = "f32-simd128",
#endif
      .quantum = {kTileRows, kPanelKeys, kLanes},
      .probability_type = DType::kF32,
      .accepts = Accepts,
      .q_row_bytes = QkRowBytes,
      .k_row_bytes = QkRowBytes,
      .v_row_bytes = VRowBytes,
      .scratch_bytes = ScratchBytes,
      .pack_q = PackQ,
      .pack_k = PackK,
      .pack_v = PackV,
      .block = Block,
  };
  return &kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();
#endif  // ATTENIO_F32_SIMD

#if HWY_ONCE
namespace attenio {
namespace {

void Add(std::vector<KernelChoice>& list, const KernelSet* kernel, int64_t target) {
  if ((hwy::SupportedTargets() & target) != 0) {
    list.push_back({.kernel = kernel, .name = kernel->name, .reason = ""});
  } else {
    list.push_back({.kernel = nullptr, .name = kernel->name, .reason = "this processor lacks the instructions"});
  }
}

}  // namespace

std::vector<KernelChoice> F32Kernels() {
  std::vector<KernelChoice> list;
  // Highway dispatches to the best target only; naming the namespaces is what makes every one selectable.
#if HWY_TARGETS & HWY_AVX3
  Add(list, N_AVX3::Table(), HWY_AVX3);
#endif
#if HWY_TARGETS & HWY_AVX2
  Add(list, N_AVX2::Table(), HWY_AVX2);
#endif
#if HWY_TARGETS & HWY_SSE4
  Add(list, N_SSE4::Table(), HWY_SSE4);
#endif
#if HWY_TARGETS & HWY_NEON
  Add(list, N_NEON::Table(), HWY_NEON);
#endif
#if defined(HWY_NEON_WITHOUT_AES) && (HWY_TARGETS & HWY_NEON_WITHOUT_AES)
  if (list.empty() || list.back().kernel == nullptr) {
    list.clear();
    Add(list, N_NEON_WITHOUT_AES::Table(), HWY_NEON_WITHOUT_AES);
  }
#endif
  return list;
}

}  // namespace attenio
#endif
