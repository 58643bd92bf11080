// The evaluation of the AttenIO paper (Lu et al., ASPLOS 2026), reproduced by the model with one set of parameters, and
// what follows from the same parameters.
#ifndef ATTENIO_SRC_HW_PAPER_H_
#define ATTENIO_SRC_HW_PAPER_H_

#include <optional>
#include <string>
#include <vector>

#include "attenio/hw.h"

namespace attenio::hw {

struct PaperRow {
  std::string item;
  int64_t head_dim = 0;             // 0: of the hardware
  std::optional<double> published;  // as printed in the paper
  double model = 0;
  std::string where;     // in the paper; empty for predictions
  double tolerance = 0;  // relative; validation asks for it. 0: none stated
  double points = 0;     // or absolute
};

// Figures and tables of the paper: I/O, speed-ups, utilisations, stalls, energy, area, power.
std::vector<PaperRow> PaperFigures();

// Nothing is tuned for these: cache of 64 to 768 KB, block-causal masks of 8K to 128K, GPT-3 prefill of 1K to 8K.
std::vector<PaperRow> PaperPredictions();

// Where the gain comes from, at 64K tokens: changes of FlashAttention-2 towards AttenIO, one after the other, in two orders;
// FlashAttention-2 with a better tile; what limits the gain; what the paper leaves out.
std::vector<PaperRow> PaperReading();

}  // namespace attenio::hw

#endif  // ATTENIO_SRC_HW_PAPER_H_
