// The machine's peaks, measured next to what is compared with them: other programs on the machine change both alike.
#ifndef ATTENIO_SRC_CLI_PEAKS_H_
#define ATTENIO_SRC_CLI_PEAKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attenio/parallel.h"

namespace attenio::cli {

struct Peaks {
  double fma_flops = 0;         // f32 multiply-adds of all threads together, without loads
  double dot_flops = 0;         // bf16 pairs on vectors; 0: the kernel does not use them
  double read_bytes = 0;        // per second, all threads together
};

// The peak of the products that a kernel is made of, and its name.
inline double ProductFlops(const Peaks& p) { return p.dot_flops > 0 ? p.dot_flops : p.fma_flops; }
inline const char* ProductName(const Peaks& p) { return p.dot_flops > 0 ? "bf16 dot" : "FMA"; }

class PeakMeter {
 public:
  // Reads `read_bytes` (rounded, between 1 MiB and 512 MiB): what the case reads, so that both come from the same cache level.
  PeakMeter(const Parallel& parallel, double read_bytes);

  // About 0.1 s; the best of three for each. `kernel` chooses the instruction set. Zeros where there is no loop.
  Peaks Measure(const std::string& kernel) const;

 private:
  Parallel parallel_;
  std::vector<std::byte> memory_;
  std::byte* data_;
  int64_t part_;  // bytes of one worker
};

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_PEAKS_H_
