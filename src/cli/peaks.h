// The machine's peaks, measured next to what is compared with them: other programs on the machine change both alike.
#ifndef ATTENIO_SRC_CLI_PEAKS_H_
#define ATTENIO_SRC_CLI_PEAKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attenio/parallel.h"

namespace attenio::cli {

// All threads together; 0: the kernel does not use it, or the processor does not have it.
struct Peaks {
  double fma_flops = 0;        // f32 multiply-adds, without loads
  double dot_flops = 0;        // bf16 pairs on vectors
  double tensor_flops = 0;     // bf16 on the tensor unit
  double tensor_l1_flops = 0;  // the same with its operands loaded from L1
  double exp_rate = 0;         // exponentials per second
  double read_bytes = 0;       // per second
  double product_cycles = 0;   // core cycles of one product instruction of the kind that the kernel is made of
};

// The peak of the products that a kernel is made of, and its name.
inline double ProductFlops(const Peaks& p) {
  return p.tensor_flops > 0 ? p.tensor_flops : p.dot_flops > 0 ? p.dot_flops : p.fma_flops;
}
inline const char* ProductName(const Peaks& p) {
  return p.tensor_flops > 0 ? "bf16 tensor" : p.dot_flops > 0 ? "bf16 dot" : "FMA";
}

// Whether products ran as fast as the processor can: on an undisturbed one an instruction takes 16 (tensor unit), 1 or 1/2
// cycles; 16.5 / 16 of that are still quiet. False where the processor has no count of cycles.
bool QuietProducts(double product_cycles);

class PeakMeter {
 public:
  // Reads `read_bytes` (rounded, between 1 MiB and 512 MiB): what the case reads, so that both come from the same cache level.
  PeakMeter(const Parallel& parallel, double read_bytes);

  // About 0.2 s; the best of three for each. `kernel` chooses the instruction set. Zeros where there is no loop.
  Peaks Measure(const std::string& kernel) const;

 private:
  Parallel parallel_;
  std::vector<std::byte> memory_;
  std::byte* data_;
  int64_t part_;  // bytes of one worker
};

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_PEAKS_H_
