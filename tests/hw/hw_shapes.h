// Shapes for the tests of the hardware model.
#ifndef ATTENIO_TESTS_HW_HW_SHAPES_H_
#define ATTENIO_TESTS_HW_HW_SHAPES_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "attenio/hw.h"

namespace attenio {

inline Shape HwShape(int64_t n, int64_t d, int64_t heads = 1) {
  Shape s;
  s.q_len = s.kv_len = n;
  s.qk_dim = s.v_dim = d;
  s.q_heads = s.kv_heads = heads;
  s.element_bytes = 2;
  return s;
}

inline ProjectOptions With(HwDataflow dataflow, TileRule tile = TileRule::kOwn) {
  ProjectOptions options;
  options.dataflow = dataflow;
  options.tile = tile;
  return options;
}

inline constexpr HwDataflow kHwDataflows[] = {HwDataflow::kAttenio, HwDataflow::kFlash2, HwDataflow::kFlat,
                                              HwDataflow::kStandard, HwDataflow::kFusemax};

}  // namespace attenio

#endif  // ATTENIO_TESTS_HW_HW_SHAPES_H_
