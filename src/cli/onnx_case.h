// One test case of the ONNX operator Attention: a folder with case.json (attributes, names of inputs and outputs) and .npy files.
#ifndef ATTENIO_SRC_CLI_ONNX_CASE_H_
#define ATTENIO_SRC_CLI_ONNX_CASE_H_

#include <string>
#include <utility>
#include <vector>

#include "cli/operands.h"

namespace attenio::cli {

struct OnnxCase {
  Problem problem;                                       // k and v are present_key and present_value
  std::vector<std::pair<std::string, Tensor>> expected;  // "Y", "present_key", "present_value"
};

// Throws InputError with the path when the folder is not a case: unknown attributes, inputs or outputs, missing files, shapes
// that do not fit. The score matrix (qk_matmul_output) is not asked for. After a copy or move call problem.Bind().
OnnxCase ReadOnnxCase(const std::string& folder);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_ONNX_CASE_H_
