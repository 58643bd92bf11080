// NumPy's .npy, format versions 1 to 3: little-endian, C order.
#ifndef ATTENIO_SRC_CLI_NPY_H_
#define ATTENIO_SRC_CLI_NPY_H_

#include <string>

#include "cli/tensor.h"

namespace attenio::cli {

// Throws InputError with the path and the reason: not a .npy file, truncated, trailing bytes, big-endian, Fortran order,
// an element type that attention has no use for, more than 8 dimensions.
Tensor ReadNpy(const std::string& path);

// False for bf16, which NumPy does not have.
bool NpyHolds(FileType type);

// Throws InputError when the file cannot be written or cannot hold the type.
void WriteNpy(const std::string& path, const Tensor& tensor);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_NPY_H_
