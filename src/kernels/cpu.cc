#include "kernels/cpu.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
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

// XCR0: which registers the system saves. Only where CPUID 1 ECX bit 27 (OSXSAVE) is set.
uint64_t SavedRegisters() {
#if defined(__x86_64__)
  if ((Cpuid(1, 0).ecx >> 27 & 1) == 0) return 0;
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | uint64_t{high} << 32;
#else
  return 0;
#endif
}

constexpr int kTileData = 18;  // state component

// Whether leaf 0x1D lists palette 1 with 8 tiles of 16 rows of 64 bytes: virtual machines may advertise AMX without it.
bool HasPalette() {
  if (Cpuid(0x1d, 0).eax < 1) return false;
  const Registers p = Cpuid(0x1d, 1);
  const uint32_t tile_bytes = p.eax >> 16, row_bytes = p.ebx & 0xffff, tiles = p.ebx >> 16, rows = p.ecx & 0xffff;
  return tile_bytes >= 1024 && row_bytes >= 64 && tiles >= 8 && rows >= 16;
}

bool RequestTiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kGetPermission = 0x1022;  // ARCH_REQ_XCOMP_PERM, ARCH_GET_XCOMP_PERM
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return false;
  uint64_t granted = 0;
  return syscall(SYS_arch_prctl, kGetPermission, &granted) == 0 && (granted >> kTileData & 1) != 0;
#else
  return false;
#endif
}

const char* FindWhyNoAmx() {
  const uint32_t features = Cpuid(7, 0).edx;
  if ((features >> 24 & 1) == 0) return "CPU has no AMX";
  if ((features >> 22 & 1) == 0) return "AMX of this CPU has no bf16";
  if ((SavedRegisters() >> (kTileData - 1) & 3) != 3) return "the operating system does not save AMX tiles";
  if (!HasPalette()) return "CPU has AMX without a tile palette (a virtual machine)";
  if (!RequestTiles()) return "the operating system refuses AMX tiles to this process";
  return nullptr;
}

}  // namespace

const char* WhyNoAmx() {
  static const char* const why = FindWhyNoAmx();
  return why;
}

bool CpuHasAvx512Bf16() { return (Cpuid(7, 1).eax >> 5 & 1) != 0; }

}  // namespace attenio
