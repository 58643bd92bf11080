// A regular file opened for reading at given offsets, with its size known before anything is allocated.
#ifndef ATTENIO_SRC_CLI_FILE_H_
#define ATTENIO_SRC_CLI_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace attenio::cli {

// Every member throws InputError with the path and the reason.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  // Fills `out` from byte `offset`; all of it or an error.
  void Read(int64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

// Writes the pieces one after the other to `path`: to a temporary name first, so that a reader never sees half a file.
void WriteFile(const std::string& path, std::span<const std::span<const std::byte>> pieces);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_FILE_H_
