// Problems of `attenio accuracy`: distributions that attention meets or fears, and the user's own tensors.
#ifndef ATTENIO_SRC_CLI_ACCURACY_DATA_H_
#define ATTENIO_SRC_CLI_ACCURACY_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/operands.h"

namespace attenio::cli {

// normal     unit normal numbers
// outlier    N(0,1) + N(0,100) Bernoulli(0.001), the distribution of the FlashAttention-3 paper's error study
// llm        like a language model's heads: keys of rank d / 8 about a common mean plus a little noise, rotary positions on q
//            and k, and key 0 a sink: aligned with the mean query, its value near zero
// bounded    q and k uniform on spheres with |scale q| |k| = bound
// clustered  64 clusters of keys whose scores spread by `bound`, cluster scores of standard deviation `between`
const std::vector<std::string>& DistributionNames();
bool TakesBound(const std::string& distribution);

struct DataOptions {
  std::string distribution = "normal";
  int64_t n = 4096, d = 64, heads = 1, kv_heads = 1;
  double bound = 1, between = 4;
  DType dtype = DType::kF32;
  bool causal = false;
  uint64_t seed = 1;
};

// One batch entry, n queries and keys; the output is f32, so that its rounding is not part of any error. The same seed gives the
// same numbers everywhere.
Problem Generate(const DataOptions& options);

struct InputOptions {
  std::vector<std::string> files;  // one .safetensors with q, k, v, or three addresses
  int64_t heads = 0, kv_heads = 0;
  std::string dtype;  // converts
  bool causal = false;
};
// Throws InputError.
Problem ReadInput(const InputOptions& options);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_ACCURACY_DATA_H_
