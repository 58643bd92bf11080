// What the kernels of this build reach on this computer, register tile by register tile, for `attenio calibrate`.
#ifndef ATTENIO_SRC_CLI_KERNEL_RATES_H_
#define ATTENIO_SRC_CLI_KERNEL_RATES_H_

#include "attenio/io.h"
#include "kernels/kernels.h"

namespace attenio::cli {

// Times the kernel's own packing and block functions on one block of keys, on one core. About a second.
KernelRates MeasureKernel(const KernelSet& kernel);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_KERNEL_RATES_H_
