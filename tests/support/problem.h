// A random attention problem with its own tensors, for tests: filled from a replayable seed, checked against the f64 oracle.
#ifndef ATTENIO_TESTS_SUPPORT_PROBLEM_H_
#define ATTENIO_TESTS_SUPPORT_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "attenio/attention.h"

namespace attenio::testing {

// Raw elements of one dtype.
class Buffer {
 public:
  Buffer() = default;
  Buffer(DType type, int64_t elements) : type_(type), bytes_(static_cast<size_t>(elements * ElementBytes(type))) {}
  DType type() const { return type_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()) / ElementBytes(type_); }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  void Set(int64_t i, double value);
  double Get(int64_t i) const;

 private:
  DType type_ = DType::kF32;
  std::vector<std::byte> bytes_;
};

// Standard normal numbers from a small generator of our own: the same on every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t Bits();
  int64_t Integer(int64_t low, int64_t high);  // inclusive
  double Uniform();                            // [0, 1)
  double Normal();

 private:
  uint64_t state_;
};

// A description with contiguous tensors filled with normal numbers.
struct Problem {
  AttentionDesc desc;
  Buffer q, k, v, out, mask;
  std::vector<float> alibi, sinks, lse;
  DType probability_type = DType::kF32;  // of the kernel that ran last

  // Allocates and fills what `desc` asks for (mask: contiguous (batch, q_heads, q_len, mask kv_len) unless strides are set).
  Problem(const AttentionDesc& d, uint64_t seed);
  Operands operands();
  int64_t QIndex(int64_t b, int64_t h, int64_t i, int64_t c) const;
  int64_t KIndex(int64_t b, int64_t h, int64_t j, int64_t c) const;
  int64_t VIndex(int64_t b, int64_t h, int64_t j, int64_t c) const;
  double Out(int64_t b, int64_t h, int64_t i, int64_t c) const;
};

// Runs with `options` on `parallel`; fails the test on an error status.
void RunPlan(Problem* problem, const Options& options = {}, const Parallel& parallel = SerialParallel());

// Every element against the oracle, by the tolerance rule; NaN must meet NaN. Returns the largest error / bound.
double ExpectMatchesOracle(Problem& problem, const std::string& what);

// Names of the kernels that this machine runs and that take `desc`, the emulated AMX kernel among them.
std::vector<std::string> UsableKernels(const AttentionDesc& desc);

}  // namespace attenio::testing

#endif  // ATTENIO_TESTS_SUPPORT_PROBLEM_H_
