#include "cli/picture.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstddef>
#include <span>

#include "cli/error.h"
#include "cli/file.h"

extern char** environ;

namespace attenio::cli {
namespace {

// Exit code of `gnuplot path`, -1 when it could not be started.
int RunGnuplot(const std::string& path) {
  char program[] = "gnuplot";
  std::string argument = path;
  char* argv[] = {program, argument.data(), nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, program, nullptr, nullptr, argv, environ) != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

void WriteText(const std::string& path, const std::string& text) {
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  WriteFile(path, std::span(&piece, 1));
}

void DrawPicture(const std::string& path, int width, int height, const std::string& script) {
  if (path.find('\'') != std::string::npos || path.find('\n') != std::string::npos) {
    Refuse("{}: a picture's name has no quotes or line ends", path);
  }
  const std::string file = path + ".gp";
  WriteText(file, fmt::format("set terminal pngcairo size {},{} font 'sans,11' background 'white'\nset output '{}'\n",
                              width, height, path) +
                      script);
  const int code = RunGnuplot(file);
  if (code < 0 || code == 127) Refuse("{}: gnuplot is not installed; the script is in {}", path, file);
  if (code != 0) Refuse("{}: gnuplot failed on {}", path, file);
}

}  // namespace attenio::cli
