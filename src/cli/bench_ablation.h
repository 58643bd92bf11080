// The switches of the exact path, one by one, and who else's tiles it could use: for `attenio bench --ablation`.
#ifndef ATTENIO_SRC_CLI_BENCH_ABLATION_H_
#define ATTENIO_SRC_CLI_BENCH_ABLATION_H_

#include <string>
#include <vector>

#include "cli/command.h"

namespace attenio::cli {

struct Variant {
  std::string name;
  RunOptions run;
};

// "as it is" first; then without prefetch, without packing ahead, without both; FlashAttention-2's tile for the L2 and a fixed
// 256 x 512 instead of the solved one; every other kernel that takes the case (but not plain C++, which is no contender).
std::vector<Variant> Variants(const AttentionDesc& desc, const RunOptions& run);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_BENCH_ABLATION_H_
