// One way to name a tensor on the command line: FILE.npy, or FILE.safetensors[:TENSOR].
#ifndef ATTENIO_SRC_CLI_TENSOR_FILE_H_
#define ATTENIO_SRC_CLI_TENSOR_FILE_H_

#include <string>
#include <vector>

#include "cli/tensor.h"

namespace attenio::cli {

// Without ":TENSOR", a .safetensors file gives the tensor called `name`, or else its only one. Throws InputError.
Tensor ReadTensor(const std::string& address, const std::string& name);

struct TensorOutput {
  std::string address;
  std::string name;  // in a .safetensors file, unless the address has one
  Tensor tensor;
};

// Whether WriteTensors could write tensors of these types to these addresses, before any work: throws InputError for a bad
// address, for a type the file cannot hold, or when two outputs are the same tensor. Looks at no shapes or bytes.
void CheckOutputs(const std::vector<TensorOutput>& outputs);

// Writes each output; those that name the same .safetensors file go into it together. Throws InputError.
void WriteTensors(const std::vector<TensorOutput>& outputs);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_TENSOR_FILE_H_
