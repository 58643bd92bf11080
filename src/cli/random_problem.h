// Random attention problems for `attenio check`: every layout and modifier of AttentionDesc, from a replayable seed.
#ifndef ATTENIO_SRC_CLI_RANDOM_PROBLEM_H_
#define ATTENIO_SRC_CLI_RANDOM_PROBLEM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "attenio/attention.h"

namespace attenio::cli {

// What a problem exercises; `check` counts them.
enum class Feature : uint8_t {
  kF32,
  kBF16,
  kF16,
  kF32Out,
  kBhsd,
  kBshd,
  kPadded,
  kPackedQkv,
  kBroadcastKv,
  kInnerStride2,
  kGqa,
  kMaskF32,
  kMaskBF16,
  kMaskF16,
  kMaskBool,
  kMaskBroadcast,
  kMaskShort,
  kMaskedRows,
  kCausal,
  kNegativeOffset,
  kWindow,
  kSoftcap,
  kAlibi,
  kSinks,
  kLse,
  kScale,
  kOffsets,
  kKvLens,
  kPoison,
  kNanQuery,
  kEmpty,
  kCount
};
inline constexpr size_t kFeatures = static_cast<size_t>(Feature::kCount);
const char* Name(Feature feature);

// One problem: description and memory. Not movable, because the description points into it. Bytes that belong to no element
// hold NaN in inputs and kGap in outputs.
class RandomProblem {
 public:
  // The same seed gives the same problem with every compiler and standard library.
  explicit RandomProblem(uint64_t seed);
  RandomProblem(const RandomProblem&) = delete;
  RandomProblem& operator=(const RandomProblem&) = delete;

  const AttentionDesc& desc() const { return desc_; }
  Operands operands();
  bool has(Feature feature) const { return features_[static_cast<size_t>(feature)]; }
  // The tiny schedule under which three of ten problems are to run ("3x5"), else empty.
  const std::string& schedule() const { return schedule_; }
  std::string Text() const;  // "batch 2 heads 4/2 len 17 x 300 dims 64/64: f32 causal ..."

  // Fills the outputs with kGap.
  void ClearOutputs();
  // Whether a byte of `out` between its elements was written.
  bool GapsWritten() const;
  const std::vector<std::byte>& out() const { return out_; }
  const std::vector<float>& lse() const { return lse_; }

 private:
  friend class ProblemBuilder;
  AttentionDesc desc_;
  std::array<bool, kFeatures> features_{};
  std::string schedule_;
  std::vector<std::byte> q_, k_, v_, out_, mask_;  // packed QKV: q_ holds all three
  int64_t k_begin_ = 0, v_begin_ = 0;              // elements into q_ when packed
  bool packed_ = false;
  std::vector<float> alibi_, sinks_, lse_;
  std::vector<int64_t> offsets_, kv_lens_;
};

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_RANDOM_PROBLEM_H_
