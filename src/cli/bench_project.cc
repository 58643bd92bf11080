#include "cli/bench_project.h"

#include <algorithm>

#include "cli/error.h"
#include "cli/machine_file.h"
#include "kernels/kernels.h"

namespace attenio::cli {

Machine CalibratedMachine(const std::string& name) {
  Machine machine = LoadMachine(name);
  if (machine.kernels.empty()) {
    Refuse(
        "--project: the machine \"{}\" has no measured kernels; `attenio calibrate --out FILE` writes them, --machine "
        "FILE reads them",
        name);
  }
  return machine;
}

Result<CpuProjection> ProjectPlan(const Plan& plan, const Machine& machine, int threads) {
  CpuOptions options;
  options.quantum = plan.quantum();
  options.kernel = plan.kernel();
  options.threads = threads;
  for (const KernelChoice& c : AllKernels()) {
    if (c.kernel == nullptr || options.kernel != c.name) continue;
    const int64_t dim = std::max<int64_t>(1, plan.shape().qk_dim);
    options.packed_bytes = std::max<int64_t>(1, c.kernel->k_row_bytes(dim) / dim);
  }
  return ProjectTime(plan.shape(), machine, plan.schedule(), options);
}

}  // namespace attenio::cli
