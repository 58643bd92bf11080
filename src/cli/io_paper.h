#ifndef ATTENIO_SRC_CLI_IO_PAPER_H_
#define ATTENIO_SRC_CLI_IO_PAPER_H_

namespace attenio::cli {

// Prints the ten published I/O ratios (AttenIO, ASPLOS 2026, Sec. 6.2.1 and Fig. 11) beside those of the formulas in io/cost.h
// and the largest tiles; returns the exit code: failed when one is off by more than 0.5 %.
int PrintPaper(bool json);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_IO_PAPER_H_
