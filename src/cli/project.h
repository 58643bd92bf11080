// attenio project: what its files share.
#ifndef ATTENIO_SRC_CLI_PROJECT_H_
#define ATTENIO_SRC_CLI_PROJECT_H_

#include <string>
#include <vector>

#include "attenio/hw.h"

namespace attenio::cli {

enum class Output { kText, kJson, kCsv };

// One run of the sweep.
struct ProjectCase {
  Accelerator hw;
  Shape shape;
  ProjectOptions options;
  std::string variant;  // of an ablation; else empty
};

// attenio project --paper: published and modelled figures, predictions, and a reading of where the gain comes from.
void PrintPaper(Output output);
// The paper's Figures 10 to 13 beside the model's: speed-up, I/O, utilisation, stalls. `path` is a PNG file.
void DrawPaper(const std::string& path);

// Resource use over the cycles `window` as CSV, and as a picture: first iterations and a change of tiles.
void WriteTimeline(const std::string& path, const ProjectCase& c, Range window);
void DrawTimeline(const std::string& path, const ProjectCase& c);

// attenio project --model: time to first token, attenio against the other dataflows.
void PrintPrefill(const std::vector<ProjectCase>& cases, const Transformer& model, Output output);

// "8192", "64K", "1M" (1024 and 1024^2). Throws InputError naming `option`.
int64_t ParseCount(const std::string& text, const char* option);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_PROJECT_H_
