// What one core can do at best, per instruction set: products without loads, and reading memory. Measured next to a
// kernel, these are the peaks that its speed is a fraction of.
#ifndef ATTENIO_SRC_KERNELS_PEAK_H_
#define ATTENIO_SRC_KERNELS_PEAK_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace attenio {

// The functions return a value that depends on every operation, so that none can be left out.
struct PeakLoops {
  const char* name;                                // "avx512", "avx2", "sse4", "neon": the end of kernel names
  double flops_per_iteration;                      // of `fma`
  double flops_per_product;                        // of one multiply-add of a vector
  float (*fma)(int64_t iterations);                // f32 multiply-adds in registers
  double flops_per_dot_iteration;                  // of `dot`; 0: the processor has no dot product of bf16 pairs on vectors
  float (*dot)(int64_t iterations);                // bf16 pairs summed in f32; nullptr
  uint64_t (*read)(const void* data, int64_t bytes);  // aligned to 64 bytes, a multiple of 1024 bytes
};

// Those that this processor runs, best first; empty only where Highway has no vectors. Computed once.
const std::vector<PeakLoops>& AllPeakLoops();

// The loops of the instruction set that the kernel of this name uses ("f32-avx2" -> "avx2"), else the best; nullptr if none.
const PeakLoops* PeakLoopsFor(std::string_view kernel);

}  // namespace attenio

#endif  // ATTENIO_SRC_KERNELS_PEAK_H_
