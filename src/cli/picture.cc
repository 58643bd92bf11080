#include "cli/picture.h"

#include <cstddef>
#include <span>

#include "cli/error.h"
#include "cli/file.h"
#include "cli/process.h"

namespace attenio::cli {
namespace {

std::string Terminal(const std::string& path, int width, int height) {
  const std::string size = fmt::format("size {},{}", width, height);
  if (path.ends_with(".png")) return "pngcairo " + size + " font 'sans,11' background 'white'";
  if (path.ends_with(".svg")) return "svg " + size + " dynamic font 'sans,14' background 'white'";
  Refuse("{}: expected a name that ends in .png or .svg", path);
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
  WriteText(file, fmt::format("set terminal {}\nset output '{}'\n", Terminal(path, width, height), path) + script);
  const int code = RunProcess({"gnuplot", file}).exit_code;
  if (code == kNotStarted || code == 127) Refuse("{}: gnuplot is not installed; the script is in {}", path, file);
  if (code != 0) Refuse("{}: gnuplot failed on {}", path, file);
}

}  // namespace attenio::cli
