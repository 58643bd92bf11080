// How much packed K and V the heads in flight may hold.
#ifndef ATTENIO_SRC_EXEC_WAVE_H_
#define ATTENIO_SRC_EXEC_WAVE_H_

#include <algorithm>
#include <cstdint>

#include "attenio/io.h"

namespace attenio {

// Half of the last-level cache: the other half streams Q and O.
inline int64_t WaveBytes(const Machine& machine) {
  int64_t largest = int64_t{8} << 20;
  for (const MemoryLevel& level : machine.levels) largest = std::max(largest, level.bytes);
  return largest / 2;
}

}  // namespace attenio

#endif  // ATTENIO_SRC_EXEC_WAVE_H_
