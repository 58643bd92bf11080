// The ordered list of kernels: first fit wins, every rejection keeps its reason.
#include "kernels/amx_bf16.h"
#include "kernels/bf16.h"
#include "kernels/f32.h"
#include "kernels/kernels.h"

#include <utility>

namespace attenio {
namespace {

std::vector<KernelChoice> Build() {
  std::vector<KernelChoice> all = AmxBf16Kernels();
  for (KernelChoice& choice : Bf16Kernels()) all.push_back(std::move(choice));
  for (KernelChoice& choice : F32Kernels()) all.push_back(std::move(choice));
  all.push_back({&PlainKernel(), PlainKernel().name, ""});
  return all;
}

}  // namespace

const std::vector<KernelChoice>& AllKernels() {
  static const std::vector<KernelChoice> all = Build();
  return all;
}

std::vector<KernelChoice>& NamedKernels() {
  static std::vector<KernelChoice> named;
  return named;
}

const KernelSet* SelectKernel(DType dtype, int64_t qk_dim, int64_t v_dim, std::string_view name, std::string* rejected) {
  if (!name.empty()) {
    for (const KernelChoice& choice : NamedKernels()) {
      if (name == choice.name && choice.kernel->accepts(dtype, qk_dim, v_dim) == nullptr) return choice.kernel;
    }
  }
  for (const KernelChoice& choice : AllKernels()) {
    if (!name.empty() && name != choice.name) continue;
    const char* why = choice.kernel == nullptr ? choice.reason.c_str() : choice.kernel->accepts(dtype, qk_dim, v_dim);
    if (why == nullptr) return choice.kernel;
    *rejected += (rejected->empty() ? "" : "; ") + std::string(choice.name) + ": " + why;
  }
  if (rejected->empty()) *rejected = "no kernel of that name";
  return nullptr;
}

}  // namespace attenio
