// The tile instructions of AMX as functions. Assembly of our own: GCC 12 deletes stores to a configuration that it believes
// unread and to buffers just written before a tile load, and its intrinsics take no template constants. Every statement is
// volatile, so that none is moved across another; loads and stores clobber memory. Compilers do not allocate tile registers.
#ifndef ATTENIO_SRC_KERNELS_AMX_TILE_H_
#define ATTENIO_SRC_KERNELS_AMX_TILE_H_

#include <cstdint>

namespace attenio {

// Memory operand of LDTILECFG, palette 1: all 8 tiles have 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// What the kernel is written against. Tile numbers 0..7; `stride` in bytes. A kernel calls Configure before anything else and
// Release before it returns: live tiles would cost every context switch and the clock of the core.
#if defined(__x86_64__)
struct HardwareTiles {
  static inline void Configure(const TileConfig& config) { asm volatile("ldtilecfg %0" : : "m"(config)); }
  static inline void Release() { asm volatile("tilerelease"); }

  template <int kTile>
  static inline void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  static inline void Load(const void* base, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(base), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  static inline void Store(void* base, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(base), "r"(stride), "i"(kTile) : "memory");
  }
  // C += A B: A 16 rows x 32 bf16, B 16 pairs of rows x 16 columns, C 16 x 16 f32.
  template <int kC, int kA, int kB>
  static inline void Dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};
#endif

}  // namespace attenio

#endif  // ATTENIO_SRC_KERNELS_AMX_TILE_H_
