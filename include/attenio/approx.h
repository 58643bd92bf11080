// Approximate attention with a certificate: the caller names an error, attenio meets it or computes exactly and says so.
//
// exp is replaced by a polynomial of the smallest sufficient degree g (Alman and Song, NeurIPS 2023), whose features are the
// monomials of degree <= g: time and memory traffic are linear in the number of keys. Keys are centred, every query row is
// certified by its own score bound, rows that cannot be certified run exactly, outlier keys are added exactly.
#ifndef ATTENIO_APPROX_H_
#define ATTENIO_APPROX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "attenio/attention.h"
#include "attenio/export.h"
#include "attenio/io.h"
#include "attenio/parallel.h"
#include "attenio/status.h"
#include "attenio/types.h"

namespace attenio {

// When the polynomial path runs.
enum class ApproxMode : uint8_t {
  kFastest,     // where it is certified and predicted to be faster than exact attention
  kPolynomial,  // wherever it is certified, whatever it costs: for studies and tests
};

enum class ApproxMethod : uint8_t {
  kState,   // one polynomial state for all keys: linear in the number of keys, needs bounded scores
  kGroups,  // keys in groups that lie close together: per query row each group is skipped, taken at its mean, by a polynomial
            // or exactly; for real inputs, quadratic with a smaller constant
};

struct ApproxOptions {
  ApproxMethod method = ApproxMethod::kState;
  // Largest |out - exact| per value column, relative to the range (max - min) of that column over the keys of the KV head;
  // one rounding to the output type comes on top. In (0, 1].
  double max_error = 1e-2;
  int max_degree = 8;  // 0..20
  ApproxMode mode = ApproxMode::kFastest;
  std::string kernel;                // of the exact rows, as in Options
  const Machine* machine = nullptr;  // default: ThisMachine()
  int workers = 0;                   // most workers that will run the plan; 0 = the machine's cores
};

// What one run did. `row_bound` and `row_degree` are set by the caller who wants them, batch x q_heads x q_len each.
struct ApproxReport {
  float* row_bound = nullptr;     // out: certified error of the row, 0 for an exact row
  int8_t* row_degree = nullptr;   // out: degree used, -1 for an exact row

  int64_t rows = 0;               // query rows of the call
  int64_t exact_rows = 0;         // of them, computed exactly
  int64_t outlier_keys = 0;       // added exactly to polynomial rows, all KV heads together
  int64_t features = 0;           // of the largest state
  int64_t blocks_skipped = 0;     // kGroups: (row, group) pairs whose weight is negligible,
  int64_t blocks_poly = 0;        // ... taken at the mean or by a polynomial,
  int64_t blocks_exact = 0;       // ... computed exactly
  int degree = -1;                // largest degree used, -1: none
  double certified = 0;           // largest certified error of a polynomial row
  double score_bound = 0;         // largest bound on a centred score of a polynomial row
  double predicted_gain = 0;      // predicted time of exact attention over that of what ran (1 where everything is exact)
  const char* reason = "";        // why rows were computed exactly, static text; empty when none was

  double exact_fraction() const { return rows > 0 ? static_cast<double>(exact_rows) / static_cast<double>(rows) : 0; }
};

// A validated description with its polynomials and workspace layout. Immutable, cheap to copy, shareable between threads.
class ATTENIO_API ApproxPlan {
 public:
  // Every description of Plan::Create. Softcap, ALiBi, masks, windows and sinks are not certifiable: such a call runs exactly
  // and the report says so. kInvalidArgument for options out of range.
  static Result<ApproxPlan> Create(const AttentionDesc& desc, const ApproxOptions& options = {});

  size_t workspace_bytes() const;
  int workers() const;

  // Computes; allocates nothing. Bit-identical for any number of workers. `report` may be null.
  Status Run(const Operands& operands, std::span<std::byte> workspace, const Parallel& parallel = SerialParallel(),
             ApproxReport* report = nullptr) const;

  const Shape& shape() const;
  // Largest score bound that some polynomial meets max_error for; 0 when every row will run exactly.
  double largest_bound() const;
  // Features (rows of the state) of a degree.
  int64_t features(int degree) const;

  struct Impl;

 private:
  explicit ApproxPlan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Plan, allocate, run with the default executor.
ATTENIO_API Status AttendApprox(const AttentionDesc& desc, const Operands& operands, const ApproxOptions& options = {},
                                ApproxReport* report = nullptr);

// ---------------------------------------------------------------- decode from a running state

struct RunningOptions {
  int64_t qk_dim = 0, v_dim = 0;  // at least 1
  std::optional<double> scale;    // default 1 / sqrt(qk_dim)
  double key_radius = 0;          // every key lies within this distance of `centre`; others are refused
  std::span<const float> centre;  // qk_dim, empty: the origin; copied
  double query_norm = 0;          // largest |q| that is to be certified: chooses the degree
  double max_error = 1e-2;        // as in ApproxOptions, over the values seen so far
  int max_degree = 8;
};

// The state of one KV head for decode: adding a token and attending all tokens so far cost O(features x v_dim), however many there
// are. f32. Not thread-safe; cheap to move.
class ATTENIO_API RunningState {
 public:
  // kUnsupported when no degree meets max_error for key_radius and query_norm.
  static Result<RunningState> Create(const RunningOptions& options);
  RunningState(RunningState&&) noexcept;
  RunningState& operator=(RunningState&&) noexcept;
  ~RunningState();

  // Appends `count` keys (count x qk_dim) and values (count x v_dim), contiguous. kInvalidArgument, with nothing added, when a
  // key is outside the radius or an element is not finite.
  Status Add(const float* keys, const float* values, int64_t count = 1);
  // Attends `rows` queries (rows x qk_dim) to every key so far; out: rows x v_dim; certified (may be null): per row. kUnsupported,
  // naming the row, when one cannot be certified: then compute it exactly.
  Status Attend(const float* queries, int64_t rows, float* out, float* certified = nullptr);

  int64_t keys() const;
  int degree() const;
  int64_t features() const;
  int64_t bytes() const;

  struct Impl;

 private:
  explicit RunningState(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// ---------------------------------------------------------------- comparators

// Methods of others, for studies: plain code, one thread, f32, no mask, no certificate. Not meant for use.
enum class Comparator : uint8_t {
  kTaylor,     // Taylor features of exp of degree `features` (Based, Arora et al. 2024)
  kPerformer,  // `features` positive random features (FAVOR+, Choromanski et al. 2021)
  kNystrom,    // `features` landmark keys, spread evenly; the exponential kernel is interpolated from them
  kWindow,     // the last `features` keys and the first `sinks` (StreamingLLM, Xiao et al. 2024); causal, query i at position i + offset
};
struct ComparatorOptions {
  Comparator method = Comparator::kTaylor;
  int64_t features = 2;
  int64_t sinks = 4;
  uint64_t seed = 1;
};
// kUnsupported for other types or modifiers.
ATTENIO_API Status RunComparator(const AttentionDesc& desc, const Operands& operands, const ComparatorOptions& options);

}  // namespace attenio

#endif  // ATTENIO_APPROX_H_
