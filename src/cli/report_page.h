// One page of text, tables and pictures, with the command beside everything that was measured.
#ifndef ATTENIO_SRC_CLI_REPORT_PAGE_H_
#define ATTENIO_SRC_CLI_REPORT_PAGE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/process.h"

namespace attenio::cli {

using Records = std::vector<nlohmann::ordered_json>;

// Columns of a table on the page: what a record's key is called there, and digits after the point (-1: text).
struct Column {
  const char* key;
  const char* heading;
  int digits = -1;
};

// Collects sections; everything lies in one folder: index.html (self-contained), DATA.jsonl and PICTURE.svg, .png, .gp.
class ReportPage {
 public:
  // Makes the folder; `program` is the attenio that runs. Throws InputError when it cannot.
  ReportPage(std::string folder, int threads, std::string program = OwnPath());

  // Runs `attenio ARGUMENTS`, keeps its JSON lines in NAME.jsonl and shows the command in the section that follows. A command
  // that fails leaves a sentence on the page instead: the other sections still come. Returns the lines.
  Records Run(const std::string& name, const std::vector<std::string>& arguments);
  // The same for text, which is returned.
  std::string RunText(const std::vector<std::string>& arguments);

  void Heading(const std::string& title);
  void Text(const std::string& html);
  void Table(const Records& records, const std::vector<Column>& columns);
  void Preformatted(const std::string& text);
  // Draws `script` as NAME.svg, which goes into the page, and NAME.png.
  void Picture(const std::string& name, int width, int height, const std::string& script, const std::string& caption);
  // Runs `attenio ARGUMENTS NAME.svg`, a command that draws a picture itself.
  void Command(const std::string& name, std::vector<std::string> arguments, const std::string& caption);

  int threads() const { return threads_; }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  const std::vector<std::string>& failures() const { return failures_; }
  // Writes index.html and returns its path.
  std::string Write(const std::string& title, const std::string& subtitle);

 private:
  std::string Output(const std::vector<std::string>& arguments);

  std::string folder_, program_;
  int threads_;
  std::string body_;
  std::vector<std::string> failures_;
};

// Text with the characters that HTML reserves escaped.
std::string Escape(const std::string& text);

// gnuplot: a data block $NAME of x-y pairs.
std::string DataBlock(const std::string& name, const std::vector<std::pair<double, double>>& points);

// gnuplot: colours that stay apart in grey and for colour-blind readers (Okabe and Ito), grid, borders left and below.
std::string Style();

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_REPORT_PAGE_H_
