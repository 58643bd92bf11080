#include "cli/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/error.h"

namespace attenio::cli {
namespace {

// Linux transfers at most 2^31 - 4096 bytes a call; a smaller piece costs nothing.
constexpr size_t kPiece = size_t{1} << 30;

std::string Reason() { return std::strerror(errno); }

void WriteAll(int descriptor, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(descriptor, bytes.data(), std::min(bytes.size(), kPiece));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) Refuse("cannot write {}: {}", path, Reason());
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

bool IsSpecial(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

}  // namespace

InputFile::InputFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a pipe without a writer must not hang before it is refused.
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) Refuse("cannot open {}: {}", path, Reason());
  struct stat info;
  const bool known = fstat(descriptor_, &info) == 0;
  if (!known || !S_ISREG(info.st_mode)) {
    close(descriptor_);
    Refuse("{} is not a regular file", path);
  }
  size_ = info.st_size;
}

InputFile::~InputFile() { close(descriptor_); }

void InputFile::Read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = pread(descriptor_, out.data(), std::min(out.size(), kPiece), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) Refuse("cannot read {}: {}", path_, Reason());
    if (n == 0) Refuse("{} ends at byte {}: it became shorter while it was read", path_, offset);
    offset += n;
    out = out.subspan(static_cast<size_t>(n));
  }
}

void WriteFile(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  // A device such as /dev/null is written in place.
  const bool special = IsSpecial(path);
  const std::string target = special ? path : fmt::format("{}.{}.part", path, getpid());
  const int descriptor = open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) Refuse("cannot create {}: {}", path, Reason());
  try {
    for (std::span<const std::byte> piece : pieces) WriteAll(descriptor, piece, path);
  } catch (...) {
    close(descriptor);
    if (!special) unlink(target.c_str());
    throw;
  }
  if (close(descriptor) != 0) Refuse("cannot write {}: {}", path, Reason());
  if (!special && std::rename(target.c_str(), path.c_str()) != 0) {
    const std::string reason = Reason();
    unlink(target.c_str());
    Refuse("cannot create {}: {}", path, reason);
  }
}

}  // namespace attenio::cli
