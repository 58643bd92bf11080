// Attention as one writes it first: the baseline `naive` of attenio bench.
#ifndef ATTENIO_SRC_CLI_NAIVE_H_
#define ATTENIO_SRC_CLI_NAIVE_H_

#include <cstdint>

#include "attenio/attention.h"

namespace attenio::cli {

// Row by row, two passes in f32: all scores of a row, then softmax, then the weighted sum of V. Contiguous tensors, causal,
// window, offset, scale and softcap; no mask, sinks, ALiBi, per-batch lengths or LSE. Rows [begin, end) of batch * q_heads *
// q_len, spread over the threads of `parallel`.
void NaiveAttention(const AttentionDesc& desc, const Operands& operands, Range rows, const Parallel& parallel);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_NAIVE_H_
