// The tile instructions in plain C++, with the exact arithmetic of the processor: what runs on them gives the bits of AMX.
#ifndef ATTENIO_TESTS_SUPPORT_EMULATED_TILES_H_
#define ATTENIO_TESTS_SUPPORT_EMULATED_TILES_H_

#include <cstdint>

#include "kernels/amx_tile.h"

namespace attenio::testing {

// State of one thread. Misuse (a tile used before Configure or after Release, bad configurations) is counted in `faults`.
struct TileState {
  bool configured = false;
  TileConfig config;
  unsigned char data[8][16][64] = {};
  int64_t faults = 0;
};
TileState& ThreadTiles();

void TileConfigure(const TileConfig& config);
void TileRelease();
void TileZero(int tile);
void TileLoad(int tile, const void* base, int64_t stride);
void TileStore(int tile, void* base, int64_t stride);
// TDPBF16PS: even and odd products are summed apart, from zero, by fused multiply-adds in the order of the pairs; then
// C + (even + odd). To nearest even; subnormal operands and results are zero.
void TileDot(int c, int a, int b);

struct EmulatedTiles {
  static void Configure(const TileConfig& config) { TileConfigure(config); }
  static void Release() { TileRelease(); }
  template <int kTile>
  static void Zero() {
    TileZero(kTile);
  }
  template <int kTile>
  static void Load(const void* base, int64_t stride) {
    TileLoad(kTile, base, stride);
  }
  template <int kTile>
  static void Store(void* base, int64_t stride) {
    TileStore(kTile, base, stride);
  }
  template <int kC, int kA, int kB>
  static void Dot() {
    TileDot(kC, kA, kB);
  }
};

// Makes the kernel "amx-emulated" selectable by name, where the processor can run its softmax; returns whether it can.
bool AddEmulatedAmxKernel();

}  // namespace attenio::testing

#endif  // ATTENIO_TESTS_SUPPORT_EMULATED_TILES_H_
