// What a kernel is: a quantum and four function pointers that pack Q, K and V and run one (query strip x key block) of
// attention with an online softmax. Kernels know rows and keys only: no heads, batches, threads or schedules.
#ifndef ATTENIO_SRC_KERNELS_KERNELS_H_
#define ATTENIO_SRC_KERNELS_KERNELS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attenio/io.h"
#include "attenio/types.h"

namespace attenio {

// Rows somewhere in memory: row r begins at base + ((first + r) / group) * outer + ((first + r) % group) * inner (in elements).
// `group` heads interleave query by query, so that the rows of a GQA group are rows of one product. group = 1: plain rows.
struct RowView {
  const void* base = nullptr;
  DType dtype = DType::kF32;
  int64_t first = 0;
  int64_t group = 1;
  int64_t outer = 0;    // stride between queries (or keys)
  int64_t inner = 0;    // stride between the heads of a group
  int64_t element = 1;  // stride between the elements of a row

  int64_t Offset(int64_t r) const { return (first + r) / group * outer + (first + r) % group * inner; }
  template <class T>
  const T* Row(int64_t r) const {
    return static_cast<const T*>(base) + Offset(r);
  }
  RowView From(int64_t row) const {
    RowView v = *this;
    v.first += row;
    return v;
  }
};

struct PackArgs {
  RowView source;
  int64_t rows = 0;  // or keys
  int64_t dim = 0;
  float multiplier = 1;  // Q only: factor of the scores, where the kernel applies it to q (else BlockArgs::score_scale)
  void* packed = nullptr;
};

// Score modifiers of one strip; arrays have one entry per row of the strip. In this order: softcap, ALiBi, mask, limits.
// Scores are in natural units when any of softcap, slope, mask is set (BlockArgs::exp_scale tells).
struct Modifiers {
  float softcap = 0;               // 0: none
  const float* slope = nullptr;    // ALiBi: s += slope[r] * (key - position[r])
  const int64_t* position = nullptr;
  RowView mask;                    // base == nullptr: none. kBool: nonzero = attend; else added, -inf excludes
  int64_t mask_keys = 0;           // keys that the mask has; later ones are excluded
  const int64_t* begin = nullptr;  // allowed keys [begin[r], end[r]); nullptr: every key of the block is allowed
  const int64_t* end = nullptr;
};

// One strip of query rows against (part of) one packed key block. Reads and updates the running state of the rows: `max` and
// `sum` of exp((s - max) * ln 2 ... ) as the kernel likes between calls, started by max = -inf, sum = 0, out = 0.
struct BlockArgs {
  const void* q = nullptr;  // packed, this strip
  const void* k = nullptr;  // packed, the whole block
  const void* v = nullptr;
  float* out = nullptr;  // rows x out_stride f32 accumulators
  float* max = nullptr;  // per row, in the unit of the scores
  float* sum = nullptr;
  void* scratch = nullptr;  // KernelSet::scratch_bytes, 64-byte aligned
  int64_t rows = 0;
  int64_t block_keys = 0;  // keys packed in the block
  int64_t keys_begin = 0;  // keys of the block to visit: [keys_begin, keys_end), relative to the block;
  int64_t keys_end = 0;    // a kernel may visit more, if `modifiers` excludes the rest
  int64_t first_key = 0;   // absolute index of key 0 of the block
  int64_t qk_dim = 0;
  int64_t v_dim = 0;
  int64_t out_stride = 0;  // RoundUp(v_dim, quantum.dims)
  float score_scale = 1;   // what pack_q was given as multiplier, for kernels that apply it to the scores: 16-bit q would round
  float exp_scale = 1;     // weights are exp2((s - max) * exp_scale): 1 if q was scaled by log2 e, else log2 e
  // V of this block holds no NaN or infinity: 0 * v is 0. Otherwise excluded keys must be left out of the product, while an
  // attended key whose weight underflows to 0 still passes its NaN or infinity on.
  bool finite_v = true;
  const Modifiers* modifiers = nullptr;  // nullptr: none, every visited key is allowed
};

// Constant table of one kernel. Packed sizes are linear: RoundUp(rows, quantum.rows) * q_row_bytes(qk_dim), and likewise
// RoundUp(keys, quantum.keys) * k_row_bytes / v_row_bytes. A strip begins at a multiple of quantum.rows of its tile.
struct KernelSet {
  const char* name;
  Quantum quantum;
  DType probability_type;  // in which weights are multiplied with V; the tolerance rule depends on it
  // Which element types q, k, v may have is told by `accepts`: nullptr, or why not (static text).
  const char* (*accepts)(DType dtype, int64_t qk_dim, int64_t v_dim);
  int64_t (*q_row_bytes)(int64_t qk_dim);
  int64_t (*k_row_bytes)(int64_t qk_dim);
  int64_t (*v_row_bytes)(int64_t v_dim);
  int64_t (*scratch_bytes)(int64_t strip_rows, int64_t block_keys, int64_t qk_dim, int64_t v_dim);
  void (*pack_q)(const PackArgs& args);
  void (*pack_k)(const PackArgs& args);
  bool (*pack_v)(const PackArgs& args);  // whether every element is finite
  void (*block)(const BlockArgs& args);
};

// The state of finished rows to typed output: out = O / sum (0 where no key was allowed), natural-log LSE.
struct FinishArgs {
  const float* out = nullptr;
  const float* max = nullptr;
  const float* sum = nullptr;
  int64_t out_stride = 0;
  int64_t rows = 0;
  int64_t v_dim = 0;
  float exp_scale = 1;             // as in BlockArgs
  const float* sink = nullptr;     // per row, natural units; nullptr: none
  RowView target;                  // base is written
  RowView lse;                     // f32, base == nullptr: not wanted
};
void FinishRows(const FinishArgs& args);

// A candidate and whether this machine takes it.
struct KernelChoice {
  const KernelSet* kernel = nullptr;  // nullptr: not compiled in, or not supported here
  const char* name = "";
  std::string reason;                 // why not; empty when usable
};

// Every kernel this build knows, best first. Computed once.
const std::vector<KernelChoice>& AllKernels();

// Usable kernels that only their name selects: tests add theirs before other threads run. Empty in the library.
std::vector<KernelChoice>& NamedKernels();

// The first kernel that accepts, or the one called `name`; `rejected` collects "name: reason" of those passed over.
const KernelSet* SelectKernel(DType dtype, int64_t qk_dim, int64_t v_dim, std::string_view name, std::string* rejected);

// Plain C++ kernels. The odd quanta exist so that tests can show that schedules and kernels agree.
const KernelSet& PlainKernel();       // 4 x 8
const KernelSet& PlainKernel1x1();
const KernelSet& PlainKernel3x5();

}  // namespace attenio

#endif  // ATTENIO_SRC_KERNELS_KERNELS_H_
