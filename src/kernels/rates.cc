// The exponential for every Highway target; products by what the compiler knows of the instruction set.
#include "kernels/rates.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/targets.h"  // before Highway

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rates.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#undef ATTENIO_RATES_SIMD
#define ATTENIO_RATES_SIMD (!HWY_HAVE_SCALABLE && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
#if ATTENIO_RATES_SIMD
#include "kernels/exp-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {

#if ATTENIO_RATES_SIMD
// Four chains of sums, or their latency would be measured.
inline float Exp2Loop(const float* in, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (int64_t i = 0; i < count; i += 4 * step) {
    a = hn::Add(a, Exp2(d, hn::Load(d, in + i)));
    b = hn::Add(b, Exp2(d, hn::Load(d, in + i + step)));
    c = hn::Add(c, Exp2(d, hn::Load(d, in + i + 2 * step)));
    e = hn::Add(e, Exp2(d, hn::Load(d, in + i + 3 * step)));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}
#else
inline float Exp2Loop(const float*, int64_t) { return std::numeric_limits<float>::quiet_NaN(); }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attenio {

HWY_EXPORT(Exp2Loop);

float SumOfExp2(const float* in, int64_t count) { return HWY_DYNAMIC_DISPATCH(Exp2Loop)(in, count); }

#if defined(__x86_64__) && defined(__linux__)
namespace {

// 12 chains: latency 6 at up to 2 per cycle.
__attribute__((target("avx512f,avx512bw,avx512bf16"))) float RunDotBf16(int64_t iterations) {
  const __m512bh one = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f803f80));
  __m512 a[12];
  for (int i = 0; i < 12; ++i) a[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t n = 0; n < iterations; ++n) {
    for (int i = 0; i < 12; ++i) {
      a[i] = _mm512_dpbf16_ps(a[i], one, one);
      asm volatile("" : "+v"(a[i]));  // chains that look alike stay apart
    }
  }
  for (int i = 1; i < 12; ++i) a[0] = _mm512_add_ps(a[0], a[i]);
  return _mm512_cvtss_f32(a[0]);
}

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Inline assembly, since compilers lose stores to a local configuration and need a flag per file for the intrinsics.
float RunTensorBf16(int64_t iterations) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = 64;
    config.rows[t] = 16;
  }
  asm volatile("ldtilecfg %0" ::"m"(config));
  asm volatile(
      "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t"
      "tilezero %%tmm4\n\ttilezero %%tmm5\n\ttilezero %%tmm6\n\ttilezero %%tmm7" ::);
  for (int64_t n = 0; n < iterations; ++n) {
    asm volatile(
        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::);
  }
  asm volatile("tilerelease" ::);
  return 0;
}

float RunTensorBf16Loads(int64_t iterations) {
  alignas(64) static const std::byte operands[4 * 1024] = {};
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = 64;
    config.rows[t] = 16;
  }
  asm volatile("ldtilecfg %0" ::"m"(config));
  asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::);
  constexpr int64_t kStride = 64;
  for (int64_t n = 0; n < iterations; ++n) {
    asm volatile(
        "tileloadd (%0,%1,1), %%tmm4\n\ttileloadd 1024(%0,%1,1), %%tmm6\n\ttdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
        "tileloadd 2048(%0,%1,1), %%tmm7\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
        "tileloadd 3072(%0,%1,1), %%tmm5\n\ttdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::"r"(
            operands),
        "r"(kStride)
        : "memory");
  }
  asm volatile("tilerelease" ::);
  return 0;
}

bool HasTensorUnit() {
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & kAmxBf16) == 0 || (edx & kAmxTile) == 0) return false;
  // Virtual machines can advertise the unit without a palette.
  if (!__get_cpuid_count(0x1d, 0, &eax, &ebx, &ecx, &edx) || eax < 1) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

ProductLoop DotBf16Loop() {
  if (!__builtin_cpu_supports("avx512bf16")) return {};
  return {12 * 32 * 2, &RunDotBf16};
}

ProductLoop TensorBf16Loop() {
  if (!HasTensorUnit()) return {};
  return {4.0 * 16 * 16 * 32 * 2, &RunTensorBf16};
}

ProductLoop TensorBf16LoadLoop() {
  if (!HasTensorUnit()) return {};
  return {4.0 * 16 * 16 * 32 * 2, &RunTensorBf16Loads};
}
#else
ProductLoop DotBf16Loop() { return {}; }
ProductLoop TensorBf16Loop() { return {}; }
ProductLoop TensorBf16LoadLoop() { return {}; }
#endif

int64_t DependentAdds(int64_t count) {
#if defined(__x86_64__) || defined(__aarch64__)
  int64_t x = 0;
  for (int64_t i = 0; i < count; i += 8) {
#if defined(__x86_64__)
    asm volatile(
        "add $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0\n\tadd $1, %0"
        : "+r"(x));
#else
    asm volatile(
        "add %0, %0, #1\n\tadd %0, %0, #1\n\tadd %0, %0, #1\n\tadd %0, %0, #1\n\tadd %0, %0, #1\n\tadd %0, %0, "
        "#1\n\tadd %0, %0, #1\n\tadd %0, %0, #1"
        : "+r"(x));
#endif
  }
  return x;
#else
  (void)count;
  return 0;
#endif
}

}  // namespace attenio
#endif
