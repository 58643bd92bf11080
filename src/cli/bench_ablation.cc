#include "cli/bench_ablation.h"

#include "io/cost.h"
#include "kernels/kernels.h"

namespace attenio::cli {
namespace {

// min(ceil(M / 4 d), d) x ceil(M / 4 d) with M words of L2, FlashAttention-2's rule.
std::string Flash2Schedule(const AttentionDesc& desc) {
  const MemoryLevel* l2 = ThisMachine().Find("L2");
  constexpr int64_t kWord = 4;
  const int64_t words = (l2 != nullptr && l2->bytes > 0 ? l2->bytes : int64_t{1} << 20) / kWord;
  const LevelTile tile = io::Flash2Tile(words, std::max<int64_t>(1, std::max(desc.qk_dim, desc.v_dim)));
  return fmt::format("{}x{}", tile.queries, tile.keys);
}

}  // namespace

std::vector<Variant> Variants(const AttentionDesc& desc, const RunOptions& run) {
  std::vector<Variant> all{{"as it is", run}};
  const auto add = [&](const std::string& name, auto change) {
    Variant v{name, run};
    change(&v.run);
    all.push_back(v);
  };
  add("no prefetch", [](RunOptions* r) { r->overlap.prefetch = false; });
  add("no packing ahead", [](RunOptions* r) { r->overlap.pack_ahead = false; });
  add("no overlap", [](RunOptions* r) { r->overlap = {.prefetch = false, .pack_ahead = false}; });
  add("flash2's tile", [&](RunOptions* r) { r->schedule = Flash2Schedule(desc); });
  add("tile 256x512", [](RunOptions* r) { r->schedule = "256x512"; });
  std::string rejected;
  const KernelSet* chosen = SelectKernel(desc.dtype, desc.qk_dim, desc.v_dim, run.kernel, &rejected);
  for (const KernelChoice& c : AllKernels()) {
    if (c.kernel == nullptr || c.kernel == chosen || c.kernel == &PlainKernel()) continue;
    if (c.kernel->accepts(desc.dtype, desc.qk_dim, desc.v_dim) != nullptr) continue;
    add(c.name, [&](RunOptions* r) { r->kernel = c.name; });
  }
  return all;
}

}  // namespace attenio::cli
