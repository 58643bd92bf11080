#include "kernels/cpu.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace attenio {
namespace {

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Zeros for leaves and subleaves that the processor does not know.
Registers Cpuid([[maybe_unused]] uint32_t leaf, [[maybe_unused]] uint32_t subleaf) {
  Registers r;
#if defined(__x86_64__)
  if (subleaf > 0 && leaf == 7 && Cpuid(7, 0).eax < subleaf) return r;  // EAX of 7.0: the last subleaf
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
#endif
  return r;
}

}  // namespace

bool CpuHasAvx512Bf16() { return (Cpuid(7, 1).eax >> 5 & 1) != 0; }

}  // namespace attenio
