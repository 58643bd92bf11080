// From tensors of files to an AttentionDesc and Operands: layouts (batch, heads, len, dim) and (batch, len, heads * dim), masks
// with right-aligned broadcast, one value per head.
#ifndef ATTENIO_SRC_CLI_OPERANDS_H_
#define ATTENIO_SRC_CLI_OPERANDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attenio/attention.h"
#include "cli/tensor.h"

namespace attenio::cli {

// Tensors of one attention call; `desc` describes them, operands() points into them.
struct Problem {
  AttentionDesc desc;
  Tensor q, k, v, out;
  std::optional<Tensor> mask, sinks, alibi, lse;
  std::vector<int64_t> offsets, kv_lens;  // desc.offsets and desc.kv_lens point here when they are not empty

  Operands operands();
  // Sets the pointers of `desc`; after every copy or move of the problem.
  void Bind();
};

// Takes extents, dtype and strides from q, k, v. `q_heads` and `kv_heads` are needed for 3-D tensors (0: as the 4-D
// shapes have them). Throws InputError with the shapes when batch, lengths or dims do not fit; the library checks the rest.
void DescribeQkv(Problem* problem, int64_t q_heads, int64_t kv_heads);

// `mask` of rank 1 to 4 against (batch, q_heads, q_len, kv_len), right-aligned; size 1 broadcasts, and a last dimension shorter
// than kv_len leaves the later keys excluded. Throws InputError.
void DescribeMask(Problem* problem, Tensor mask);

// A tensor of `heads` floating-point values, as f32. Throws InputError naming `what`.
Tensor PerHead(const Tensor& tensor, int64_t heads, const char* what);

// Output like q, with v_dim and `type`; and, if desc.lse, an LSE of shape (batch, q_heads, q_len).
void AllocateOutputs(Problem* problem, DType type);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_OPERANDS_H_
