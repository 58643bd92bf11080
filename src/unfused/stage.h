// The oneDNN primitives of one chunk. The difference between oneDNN 2 and 3 is in stage.cc alone.
#ifndef ATTENIO_SRC_UNFUSED_STAGE_H_
#define ATTENIO_SRC_UNFUSED_STAGE_H_

#ifdef ATTENIO_HAVE_ONEDNN

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>

#include "attenio/types.h"

namespace attenio::unfused {

struct StageShape {
  int64_t rows = 0, keys = 0, qk_dim = 0, v_dim = 0;
  int64_t q_row = 0, k_row = 0, v_row = 0, out_row = 0;  // element strides; elements of a row are adjacent
  std::optional<int64_t> mask_row;                       // of an additive f32 mask
  DType type = DType::kF32, out_type = DType::kF32;
  float scale = 1;
};

// Scores are f32; probabilities have the type of the inputs and, where that is f32, the place of the scores.
struct Stage {
  dnnl::memory::desc q, k, scores, weights, v, out, mask;
  int mask_argument = 0;  // of qk
  dnnl::matmul qk, pv;
#if DNNL_VERSION_MAJOR < 3
  dnnl::softmax_v2_forward softmax;
#else
  dnnl::softmax_forward softmax;
#endif
  dnnl::memory::desc qk_scratch, softmax_scratch, pv_scratch;
  std::string implementations;  // "qk ..., softmax ..., pv ..."
};

// Throws dnnl::error where oneDNN has no implementation.
Stage MakeStage(const dnnl::engine& engine, const StageShape& shape);

}  // namespace attenio::unfused

#endif  // ATTENIO_HAVE_ONEDNN

#endif  // ATTENIO_SRC_UNFUSED_STAGE_H_
