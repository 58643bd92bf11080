// The .safetensors format: 8 bytes of header length, a JSON header, little-endian row-major data.
#ifndef ATTENIO_SRC_CLI_SAFETENSORS_H_
#define ATTENIO_SRC_CLI_SAFETENSORS_H_

#include <map>
#include <string>
#include <vector>

#include "cli/file.h"
#include "cli/tensor.h"

namespace attenio::cli {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// An open file whose header has been checked as a whole: sizes agree with shapes, the tensors cover the data without gap or
// overlap, no name occurs twice. Element types are looked at only when a tensor is read. Throws InputError.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  std::vector<std::string> names() const;
  bool Has(const std::string& name) const { return entries_.count(name) != 0; }
  // Throws InputError for an unknown name or a type that the command does not read.
  Tensor Read(const std::string& name) const;

 private:
  struct Entry {
    std::string dtype;
    std::vector<int64_t> shape;
    int64_t begin = 0;  // from the start of the data
    int64_t end = 0;
  };

  void ReadHeader(const std::string& text);
  void CheckCoverage(int64_t data_bytes) const;

  InputFile file_;
  int64_t data_offset_ = 0;
  std::map<std::string, Entry> entries_;
};

// Tensors in the order given; names must differ. Throws InputError when the file cannot be written.
void WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_SAFETENSORS_H_
