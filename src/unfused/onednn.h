// The baseline: attention as three oneDNN primitives (matmul, softmax, matmul), with the score matrix in memory.
//
// Query rows are cut into chunks, so that a chunk's scores stay in a cache; every task is one chunk of one head and runs its
// primitives on one thread, and the threads are those of `parallel`, as for our own kernels.
#ifndef ATTENIO_SRC_UNFUSED_ONEDNN_H_
#define ATTENIO_SRC_UNFUSED_ONEDNN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "attenio/attention.h"

namespace attenio::unfused {

struct Options {
  int64_t rows = 0;  // query rows of a chunk; 0 = as many as keep its scores within 4 MiB
  int workers = 1;   // most workers that will run the plan
};

// oneDNN's version ("2.6.3") or, in a build without it, an empty text.
std::string OneDnnVersion();

// Immutable and cheap to copy; any number of threads may run one plan, each with a workspace of its own.
class OneDnnPlan {
 public:
  // `desc` is resolved (api/validate.h). kUnsupported, with the reason, for what the primitives do not express: f16, softcap,
  // windows, ALiBi, sinks, lse, boolean masks, rows without a key; and for a build without oneDNN or without OpenMP, whose
  // threads oneDNN would take without our count.
  static Result<OneDnnPlan> Create(const AttentionDesc& desc, const Options& options);

  size_t workspace_bytes() const;
  // Computes the attention; kWorkspaceTooSmall, or kInvalidArgument when the executor has more workers than planned.
  Status Run(const Operands& operands, std::span<std::byte> workspace, const Parallel& parallel) const;
  // Version, chunk and the implementations that oneDNN chose: "onednn 2.6.3 rows 128, qk brg:avx512_core, ...".
  const std::string& kernel() const;
  // In which the probabilities are multiplied with V.
  DType probability_type() const;

  struct Impl;

 private:
  explicit OneDnnPlan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace attenio::unfused

#endif  // ATTENIO_SRC_UNFUSED_ONEDNN_H_
