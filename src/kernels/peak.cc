// The loops for every Highway target.
#include "kernels/peak.h"

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/cpu.h"

#include "kernels/targets.h"  // before Highway

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/peak.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#if HWY_ARCH_X86_64 && HWY_TARGET == HWY_AVX3
#include "kernels/dot-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Independent chains: latency 4 times 2 to 4 units needs 8 to 16. With 16 registers, 14 and the constant leave one free.
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3
#define ATTENIO_PEAK_CHAINS 14
#else
#define ATTENIO_PEAK_CHAINS 16
#endif

// a <- a / 2 + 1/2 stays near 1: no overflow, no subnormal numbers, one constant. The chains begin differently, or the compiler
// would see that they are the same.
inline float Fma(int64_t iterations) {
  const hn::ScalableTag<float> d;
  const auto c = hn::Set(d, 0.5f);
  auto a0 = hn::Set(d, 0.0f), a1 = hn::Set(d, 1.0f), a2 = hn::Set(d, 2.0f), a3 = hn::Set(d, 3.0f), a4 = hn::Set(d, 4.0f);
  auto a5 = hn::Set(d, 5.0f), a6 = hn::Set(d, 6.0f), a7 = hn::Set(d, 7.0f), a8 = hn::Set(d, 8.0f), a9 = hn::Set(d, 9.0f);
  auto a10 = hn::Set(d, 10.0f), a11 = hn::Set(d, 11.0f), a12 = hn::Set(d, 12.0f), a13 = hn::Set(d, 13.0f);
#if ATTENIO_PEAK_CHAINS == 16
  auto a14 = hn::Set(d, 14.0f), a15 = hn::Set(d, 15.0f);
#endif
  for (int64_t i = 0; i < iterations; ++i) {
    a0 = hn::MulAdd(a0, c, c);
    a1 = hn::MulAdd(a1, c, c);
    a2 = hn::MulAdd(a2, c, c);
    a3 = hn::MulAdd(a3, c, c);
    a4 = hn::MulAdd(a4, c, c);
    a5 = hn::MulAdd(a5, c, c);
    a6 = hn::MulAdd(a6, c, c);
    a7 = hn::MulAdd(a7, c, c);
    a8 = hn::MulAdd(a8, c, c);
    a9 = hn::MulAdd(a9, c, c);
    a10 = hn::MulAdd(a10, c, c);
    a11 = hn::MulAdd(a11, c, c);
    a12 = hn::MulAdd(a12, c, c);
    a13 = hn::MulAdd(a13, c, c);
#if ATTENIO_PEAK_CHAINS == 16
    a14 = hn::MulAdd(a14, c, c);
    a15 = hn::MulAdd(a15, c, c);
#endif
  }
  auto sum = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(hn::Add(a4, a5), hn::Add(a6, a7)));
  sum = hn::Add(sum, hn::Add(hn::Add(hn::Add(a8, a9), hn::Add(a10, a11)), hn::Add(a12, a13)));
#if ATTENIO_PEAK_CHAINS == 16
  sum = hn::Add(sum, hn::Add(a14, a15));
#endif
  return hn::GetLane(hn::MaxOfLanes(d, sum));
}

inline uint64_t Read(const void* data, int64_t bytes) {
  const hn::ScalableTag<uint64_t> d;
  const size_t step = hn::Lanes(d);
  const uint64_t* p = static_cast<const uint64_t*>(data);
  const uint64_t* end = p + bytes / 8;
  auto x0 = hn::Zero(d), x1 = x0, x2 = x0, x3 = x0;
  for (; p < end; p += 4 * step) {
    x0 = hn::Xor(x0, hn::Load(d, p));
    x1 = hn::Xor(x1, hn::Load(d, p + step));
    x2 = hn::Xor(x2, hn::Load(d, p + 2 * step));
    x3 = hn::Xor(x3, hn::Load(d, p + 3 * step));
  }
  return hn::GetLane(hn::Xor(hn::Xor(x0, x1), hn::Xor(x2, x3)));
}

#if HWY_ARCH_X86_64 && HWY_TARGET == HWY_AVX3
constexpr int kDotChains = 12;  // latency 6, one or two a cycle

// a <- a + 2^-8 + 2^-8: grows to 2^17 and stays there.
inline float Dot(int64_t iterations) {
  const hn::FixedTag<float, 16> d;
  const VPair c = hn::Set(DPair(), 0x3d803d80u);  // pairs of 2^-4
  VSum a[kDotChains];
  HWY_UNROLL(12)
  for (int k = 0; k < kDotChains; ++k) a[k] = hn::Set(d, static_cast<float>(k));
  for (int64_t i = 0; i < iterations; ++i) {
    HWY_UNROLL(12)
    for (int k = 0; k < kDotChains; ++k) a[k] = DotAdd(a[k], c, c);
  }
  VSum sum = a[0];
  HWY_UNROLL(12)
  for (int k = 1; k < kDotChains; ++k) sum = hn::Add(sum, a[k]);
  return hn::GetLane(sum);
}
#endif

inline PeakLoops Loops(const char* name) {
  PeakLoops loops = {.name = name,
                     .flops_per_iteration = 2.0 * ATTENIO_PEAK_CHAINS * static_cast<double>(hn::Lanes(hn::ScalableTag<float>())),
                     .flops_per_product = 2.0 * static_cast<double>(hn::Lanes(hn::ScalableTag<float>())),
                     .fma = &Fma,
                     .flops_per_dot_iteration = 0,
                     .dot = nullptr,
                     .read = &Read};
#if HWY_ARCH_X86_64 && HWY_TARGET == HWY_AVX3
  if (CpuHasAvx512Bf16()) {
    loops.flops_per_dot_iteration = 4.0 * 16 * kDotChains;
    loops.dot = &Dot;
  }
#endif
  return loops;
}

#undef ATTENIO_PEAK_CHAINS

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attenio {
namespace {

std::vector<PeakLoops> Build() {
  std::vector<PeakLoops> all;
  [[maybe_unused]] const auto add = [&](int64_t target, PeakLoops (*loops)(const char*), const char* name) {
    if ((hwy::SupportedTargets() & target) != 0) all.push_back(loops(name));
  };
#if HWY_TARGETS & HWY_AVX3
  add(HWY_AVX3, &N_AVX3::Loops, "avx512");
#endif
#if HWY_TARGETS & HWY_AVX2
  add(HWY_AVX2, &N_AVX2::Loops, "avx2");
#endif
#if HWY_TARGETS & HWY_SSE4
  add(HWY_SSE4, &N_SSE4::Loops, "sse4");
#endif
#if HWY_TARGETS & HWY_NEON
  add(HWY_NEON, &N_NEON::Loops, "neon");
#endif
#if defined(HWY_NEON_WITHOUT_AES) && (HWY_TARGETS & HWY_NEON_WITHOUT_AES)
  if (all.empty()) add(HWY_NEON_WITHOUT_AES, &N_NEON_WITHOUT_AES::Loops, "neon");
#endif
  return all;
}

}  // namespace

const std::vector<PeakLoops>& AllPeakLoops() {
  static const std::vector<PeakLoops> all = Build();
  return all;
}

const PeakLoops* PeakLoopsFor(std::string_view kernel) {
  const std::vector<PeakLoops>& all = AllPeakLoops();
  const std::string_view instructions = kernel.substr(kernel.rfind('-') + 1);  // npos + 1 is 0: the whole name
  for (const PeakLoops& loops : all) {
    if (instructions == loops.name) return &loops;
  }
  return all.empty() ? nullptr : &all.front();
}

}  // namespace attenio
#endif
