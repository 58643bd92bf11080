// Scaled dot-product attention on the CPU: describe a problem, plan it once, run it many times.
//
//   auto plan = attenio::Plan::Create(desc);                 // validates, picks a kernel, solves the schedule; may fail
//   std::vector<std::byte> ws(plan->workspace_bytes());
//   plan->Run(operands, ws, attenio::OpenMPParallel());      // allocates nothing
//
// or attenio::Attend(desc, operands) for all of it. Semantics are those of ONNX Attention (opset 23-25) plus sinks, ALiBi
// and windows: a masked key contributes exactly nothing, a row without an allowed key is 0.
#ifndef ATTENIO_ATTENTION_H_
#define ATTENIO_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "attenio/export.h"
#include "attenio/io.h"
#include "attenio/parallel.h"
#include "attenio/status.h"
#include "attenio/types.h"

namespace attenio {

// Stands for "contiguous (batch, head, row, element)" in any of the three outer strides.
inline constexpr int64_t kContiguous = INT64_MIN;

// Element strides of a (batch, head, row, element) tensor. Stride 0 broadcasts (inputs only); negative strides are refused.
struct Strides {
  int64_t batch = kContiguous;
  int64_t head = kContiguous;
  int64_t row = kContiguous;
  int64_t element = 1;
};

// A mask of shape (batch, q_heads, q_len, kv_len). Strides are always explicit: 0 broadcasts a dimension.
// kBool: nonzero = attend. Floating point: added to the scores; -inf excludes the key.
struct MaskDesc {
  std::optional<DType> dtype;  // empty: no mask
  int64_t batch = 0, head = 0, query = 0, key = 1;  // element strides
  int64_t kv_len = -1;         // keys the mask has; later keys are excluded; -1 = all
};

struct AttentionDesc {
  int64_t batch = 1;
  int64_t q_heads = 1;
  int64_t kv_heads = 1;  // query head h attends KV head h / (q_heads / kv_heads)
  int64_t q_len = 0;
  int64_t kv_len = 0;
  int64_t qk_dim = 0;
  int64_t v_dim = 0;
  DType dtype = DType::kF32;        // of q, k and v
  std::optional<DType> out_dtype;   // default: dtype; kF32 is allowed for 16-bit inputs
  Strides q, k, v, out;

  std::optional<double> scale;      // default 1 / sqrt(qk_dim); must be given when qk_dim is 0
  double softcap = 0;               // s = softcap tanh(s / softcap); 0 = off
  MaskDesc mask;
  bool causal = false;              // key j is allowed for query i iff j <= i + offset
  int64_t window_left = kUnbounded;   // keep keys >= i + offset - left
  int64_t window_right = kUnbounded;  // keep keys <= i + offset + right
  int64_t offset = 0;               // position of query 0: 0 top-left, kv_len - q_len bottom-right, past length with a cache
  const int64_t* offsets = nullptr;  // per batch entry, instead of `offset`; copied by Plan::Create
  const int64_t* kv_lens = nullptr;  // per batch entry, keys in use, 0..kv_len; copied by Plan::Create
  bool alibi = false;               // s += slope[head] (key - position of the query)
  bool sinks = false;               // one extra logit per query head in the denominator
  bool lse = false;                 // write the natural log-sum-exp of every row, sink included
  Strides lse_strides;              // of lse (batch, q_heads, q_len); `element` is not used
};

// Pointers for one run. Alignment: that of the element type. Inputs may alias each other, not the outputs.
struct Operands {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  const void* mask = nullptr;
  const float* alibi = nullptr;  // q_heads slopes
  const float* sinks = nullptr;  // q_heads logits
  float* lse = nullptr;
};

// What runs at the same time as the products. Each changes speed only, never a bit of the result; they can be turned off so that
// their worth can be measured (`attenio bench --ablation`).
struct OverlapOptions {
  bool prefetch = true;    // the next packed key block into L2 during the current one
  bool pack_ahead = true;  // K and V of the next wave of heads during the tiles of the current one
};

struct Options {
  std::string kernel;       // override by name ("plain", "f32-AVX3", ...); empty = the first that fits
  std::string schedule;     // override, see Schedule::Parse; missing inner levels are solved
  const Machine* machine = nullptr;  // default: ThisMachine(); used during Create only
  OverlapOptions overlap;
  int workers = 0;          // most workers that will run the plan; 0 = the machine's cores
};

// A validated description with its kernel, schedule and workspace layout. Immutable and cheap to copy; any number of threads
// may run one plan at the same time, each with a workspace of its own.
class ATTENIO_API Plan {
 public:
  static Result<Plan> Create(const AttentionDesc& desc, const Options& options = {});

  // Bytes that Run needs, for parallel.workers <= workers(). Any alignment will do.
  size_t workspace_bytes() const;
  int workers() const;

  // Computes the attention. Checks pointers and sizes (O(1)), allocates nothing. Results are bit-identical for any number of
  // workers and from run to run. kWorkspaceTooSmall, or kInvalidArgument naming a missing operand.
  Status Run(const Operands& operands, std::span<std::byte> workspace, const Parallel& parallel = SerialParallel()) const;

  // For runtimes that own their threads: phases one after the other, the tasks of a phase in any order and at the same time,
  // each worker id (< workers()) in one thread at a time. Equals Run.
  int64_t phases() const;
  int64_t tasks(int64_t phase) const;
  Status RunTask(const Operands& operands, std::span<std::byte> workspace, int64_t phase, int64_t task, int worker) const;

  const Shape& shape() const;
  const Schedule& schedule() const;
  const char* kernel() const;
  Quantum quantum() const;
  DType probability_type() const;  // of the kernel: in which weights are multiplied with V
  // Shape, machine, kernel and why not the others, schedule, predicted traffic against the bound: text for people.
  std::string Explain() const;

  struct Impl;

 private:
  explicit Plan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Plan, allocate, run with the default executor. kOutOfMemory when the workspace cannot be had.
ATTENIO_API Status Attend(const AttentionDesc& desc, const Operands& operands, const Options& options = {});

// Every kernel of this build, best first: whether this machine can run it, and why not.
struct KernelInfo {
  std::string name;
  Quantum quantum;
  DType probability_type = DType::kF32;  // in which weights are multiplied with V
  bool available = false;
  std::string reason;  // empty when available
};
ATTENIO_API std::vector<KernelInfo> Kernels();

// Merges results over disjoint key sets, by their log-sum-exp, into out and lse (both may be one of the parts): `rows` rows of
// `dim` f32 each, contiguous. A sink must be in exactly one part. A part with lse = -inf contributes nothing.
ATTENIO_API Status MergeByLse(std::span<const float* const> outs, std::span<const float* const> lses, int64_t rows, int64_t dim,
                              float* out, float* lse);

}  // namespace attenio

#endif  // ATTENIO_ATTENTION_H_
