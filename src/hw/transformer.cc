// Prefill of a whole transformer: attention as projected, everything else as GEMMs on the array.
#include <algorithm>
#include <cmath>

#include "hw/timeline.h"

namespace attenio {
namespace {

// (rows x inner) (inner x columns), in cycles: the array full or waiting for words at the square-matrix bound
// 2 n^3 / sqrt(M) + n^2, whichever takes longer; tiles are double buffered.
double GemmCycles(const Accelerator& hw, int64_t rows, int64_t inner, int64_t columns) {
  const double pairs = static_cast<double>(rows) * static_cast<double>(columns);
  const double compute = std::ceil(pairs / static_cast<double>(hw.macs())) * static_cast<double>(inner);
  const double words =
      2 * pairs * static_cast<double>(inner) / std::sqrt(static_cast<double>(hw.cache_words())) + pairs;
  return std::max(compute, words * static_cast<double>(hw.element_bytes) / hw.bytes_per_cycle());
}

Status CheckModel(const Transformer& m, int64_t tokens) {
  const int64_t counts[] = {m.layers, m.hidden, m.heads, m.kv_heads, m.head_dim, m.mlp, m.mlp_matrices, tokens};
  const bool sane = std::all_of(std::begin(counts), std::end(counts), [](int64_t c) { return c >= 1 && c <= 1 << 24; });
  if (sane && m.heads % m.kv_heads == 0) return {};
  return Status::Error(Code::kInvalidArgument,
                       "model %.64s: extents must be positive, below 2^24, heads a multiple of kv_heads",
                       m.name.c_str());
}

}  // namespace

Transformer Gpt3() { return {"gpt3", 96, 12288, 96, 96, 128, 4 * 12288, 2}; }
Transformer Llama3_8B() { return {"llama3-8b", 32, 4096, 32, 8, 128, 14336, 3}; }

Result<Prefill> ProjectPrefill(const Accelerator& accelerator, const Transformer& model, int64_t tokens,
                               Masking masking, const ProjectOptions& options) {
  if (Status s = CheckModel(model, tokens); !s.ok()) return s;
  Shape shape;
  shape.q_heads = model.heads;
  shape.kv_heads = model.kv_heads;
  shape.q_len = shape.kv_len = tokens;
  shape.qk_dim = shape.v_dim = model.head_dim;
  shape.element_bytes = accelerator.element_bytes;
  if (masking == Masking::kCausal) shape.right = 0;
  Result<Projection> attention = Project(accelerator, shape, options);
  if (!attention.ok()) return attention.status();

  const int64_t wide = model.heads * model.head_dim, narrow = model.kv_heads * model.head_dim;
  const double layer =
      GemmCycles(accelerator, tokens, model.hidden, wide + 2 * narrow) +
      GemmCycles(accelerator, tokens, wide, model.hidden) +
      static_cast<double>(model.mlp_matrices) * GemmCycles(accelerator, tokens, model.hidden, model.mlp);
  const double layers = static_cast<double>(model.layers);
  Prefill p;
  p.attention_seconds = layers * attention->seconds;
  p.gemm_seconds = layers * layer / accelerator.clock_hz;
  p.seconds = p.attention_seconds + p.gemm_seconds;
  p.attention_share = p.attention_seconds / p.seconds;
  const double weights =
      static_cast<double>(model.hidden) * static_cast<double>(2 * wide + 2 * narrow + model.mlp_matrices * model.mlp);
  const double gemm_flops = 2 * static_cast<double>(tokens) * weights;
  p.attention_flop_share = shape.Flops() / (shape.Flops() + gemm_flops);
  return p;
}

}  // namespace attenio
