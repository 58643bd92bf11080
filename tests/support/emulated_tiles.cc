#include "support/emulated_tiles.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/bits.h"

namespace attenio::testing {
namespace {

float Flush(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }

float Element(const unsigned char* row, int i) {
  BF16 h;
  std::memcpy(&h, row + 2 * i, 2);
  return Flush(ToFloat(h));
}

TileState& Use(int tile) {
  TileState& t = ThreadTiles();
  if (!t.configured || t.config.rows[tile] == 0) ++t.faults;
  return t;
}

}  // namespace

TileState& ThreadTiles() {
  thread_local TileState state;
  return state;
}

void TileConfigure(const TileConfig& config) {
  TileState& t = ThreadTiles();
  t.configured = true;
  t.config = config;
  std::memset(t.data, 0, sizeof(t.data));
  if (config.palette != 1 || config.start_row != 0) ++t.faults;
  for (int i = 0; i < 16; ++i) {
    const bool known = i < 8;
    if (config.rows[i] > (known ? 16 : 0) || config.row_bytes[i] > (known ? 64 : 0)) ++t.faults;
  }
}

void TileRelease() {
  TileState& t = ThreadTiles();
  t.configured = false;
  std::memset(t.data, 0, sizeof(t.data));
}

void TileZero(int tile) {
  TileState& t = Use(tile);
  std::memset(t.data[tile], 0, sizeof(t.data[tile]));
}

void TileLoad(int tile, const void* base, int64_t stride) {
  TileState& t = Use(tile);
  std::memset(t.data[tile], 0, sizeof(t.data[tile]));
  for (int r = 0; r < t.config.rows[tile]; ++r) {
    std::memcpy(t.data[tile][r], static_cast<const char*>(base) + r * stride, t.config.row_bytes[tile]);
  }
}

void TileStore(int tile, void* base, int64_t stride) {
  const TileState& t = Use(tile);
  for (int r = 0; r < t.config.rows[tile]; ++r) {
    std::memcpy(static_cast<char*>(base) + r * stride, t.data[tile][r], t.config.row_bytes[tile]);
  }
}

// With FMA instructions std::fma is not a library call: the kernels that run on this need AVX-512 anyway.
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]]
#endif
void TileDot(int c, int a, int b) {
  Use(a);
  Use(b);
  TileState& t = Use(c);
  const int rows = t.config.rows[c], columns = t.config.row_bytes[c] / 4, pairs = t.config.row_bytes[a] / 4;
  if (c == a || c == b || a == b || t.config.rows[a] != rows || t.config.rows[b] != pairs || t.config.row_bytes[b] != t.config.row_bytes[c]) ++t.faults;
  float right[16][32];
  for (int k = 0; k < pairs; ++k) {
    for (int n = 0; n < 2 * columns; ++n) right[k][n] = Element(t.data[b][k], n);
  }
  for (int m = 0; m < rows; ++m) {
    float sums[32] = {};  // even and odd by turns
    for (int k = 0; k < pairs; ++k) {
      const float left[2] = {Element(t.data[a][m], 2 * k), Element(t.data[a][m], 2 * k + 1)};
      for (int n = 0; n < 2 * columns; ++n) sums[n] = Flush(std::fma(left[n % 2], right[k][n], sums[n]));
    }
    for (int n = 0; n < columns; ++n) {
      float old;
      std::memcpy(&old, t.data[c][m] + 4 * n, 4);
      const float sum = Flush(Flush(old) + Flush(sums[2 * n] + sums[2 * n + 1]));
      std::memcpy(t.data[c][m] + 4 * n, &sum, 4);
    }
  }
}

}  // namespace attenio::testing
