// Machines that are known without measuring.
#include "attenio/io.h"

namespace attenio {

const MemoryLevel* Machine::Find(std::string_view level) const {
  for (const MemoryLevel& l : levels) {
    if (l.name == level) return &l;
  }
  return nullptr;
}

const KernelRates* Machine::FindKernel(std::string_view kernel) const {
  for (const KernelRates& k : kernels) {
    if (k.kernel == kernel) return &k;
  }
  return nullptr;
}

Machine AttenioMachine() {
  Machine m;
  m.name = "attenio";
  MemoryLevel cache;
  cache.name = "cache";
  cache.bytes = 512 * 1024;
  cache.ways = 0;
  cache.line_bytes = 2;  // word granular: the controller moves elements
  MemoryLevel memory;
  memory.name = "memory";
  memory.bytes_per_second = 128e9;  // 16 HBM channels of 8 GB/s
  memory.shared_bytes_per_second = 128e9;
  m.levels = {cache, memory};
  m.clock_hz = 1e9;
  m.tensor_flops = 2.0 * 64 * 32 * 1e9;  // 64 lines of 32 MACs
  m.exp_per_second = 128e9;
  return m;
}

}  // namespace attenio
