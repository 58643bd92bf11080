// Pictures: a gnuplot script beside the data it draws, so that anyone can draw it again.
#ifndef ATTENIO_SRC_CLI_PICTURE_H_
#define ATTENIO_SRC_CLI_PICTURE_H_

#include <string>

namespace attenio::cli {

// Writes `script` to PATH.gp and runs gnuplot on it to make `path`, a PNG or SVG file by its ending (size in pixels). Throws
// InputError for another ending or when there is no gnuplot; the script stays.
void DrawPicture(const std::string& path, int width, int height, const std::string& script);

// Writes text to a file. Throws InputError.
void WriteText(const std::string& path, const std::string& text);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_PICTURE_H_
