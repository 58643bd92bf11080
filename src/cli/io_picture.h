#ifndef ATTENIO_SRC_CLI_IO_PICTURE_H_
#define ATTENIO_SRC_CLI_IO_PICTURE_H_

#include <string>

#include "cli/io_report.h"

namespace attenio::cli {

// Draws what every dataflow moves with the lower bound under it, over the sequence length (at `level`) and over the size of the
// fast memory (at the problem's length), into a .png or .svg file, see DrawPicture.
void DrawTraffic(const std::string& path, const IoProblem& problem, const MemoryLevel& level);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_IO_PICTURE_H_
