#include "cli/report_page.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "cli/command.h"
#include "cli/picture.h"

namespace attenio::cli {
namespace {

constexpr char kCss[] = R"(
body { font: 16px/1.5 "DejaVu Sans", "Helvetica", sans-serif; color: #111; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #999; }
p.sub { margin-top: 0; color: #444; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.85rem; }
th, td { padding: 0.2rem 0.7rem; border-bottom: 1px solid #ccc; text-align: right; } th { border-bottom: 2px solid #555; }
th:first-child, td.text { text-align: left; } td.text:first-child { white-space: nowrap; }
pre { background: #f4f4f4; padding: 0.6rem; overflow-x: auto; font-size: 0.8rem; line-height: 1.35; }
pre.command { background: #eef3f8; } p.failed { color: #a00; }
figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; } figcaption { color: #444; font-size: 0.9rem; }
@media print { body { max-width: none; } h2, figure, table { break-inside: avoid; } }
)";

std::string Cell(const nlohmann::ordered_json& record, const Column& column) {
  const auto found = record.find(column.key);
  if (found == record.end() || found->is_null()) return "<td></td>";
  if (found->is_number() && column.digits >= 0)
    return fmt::format("<td>{:.{}f}</td>", found->get<double>(), column.digits);
  return fmt::format("<td class=text>{}</td>", Escape(found->is_string() ? found->get<std::string>() : found->dump()));
}

// The part of an SVG file that HTML takes: without the XML declaration, with ids of its own (gnuplot numbers them alike in
// every picture).
std::string InlineSvg(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string svg = text.str();
  const size_t begin = svg.find("<svg");
  if (begin == std::string::npos) Refuse("{}: gnuplot wrote no picture", path);
  svg.erase(0, begin);
  for (const char* word :
       {"gpDot", "gpPt", "gnuplot_plot_", "gnuplot_canvas", "densityPattern", "greySwatch", "textbox"}) {
    const std::string unique = name + "_" + word;
    for (size_t at = 0; (at = svg.find(word, at)) != std::string::npos; at += unique.size()) {
      svg.replace(at, std::string(word).size(), unique);
    }
  }
  return svg;
}

}  // namespace

std::string Escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string DataBlock(const std::string& name, const std::vector<std::pair<double, double>>& points) {
  std::string text = fmt::format("${} << EOD\n", name);
  for (const auto& [x, y] : points) text += fmt::format("{:.9g} {:.9g}\n", x, y);
  return text + "EOD\n";
}

std::string Style() {
  std::string text =
      "set border 3\nset tics out nomirror\nset grid lc rgb '#d0d0d0' lw 1\nset key samplen 2 spacing 1.1\n";
  const std::pair<const char*, int> styles[] = {{"#0072B2", 7},  {"#D55E00", 5}, {"#009E73", 9}, {"#CC79A7", 11},
                                                {"#E69F00", 13}, {"#56B4E9", 4}, {"#000000", 6}};
  for (size_t i = 0; i < std::size(styles); ++i) {
    text += fmt::format("set linetype {} lc rgb '{}' lw 2 pt {} ps 0.9\n", i + 1, styles[i].first, styles[i].second);
  }
  return text;
}

ReportPage::ReportPage(std::string folder, int threads, std::string program)
    : folder_(std::move(folder)), program_(std::move(program)), threads_(threads) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) Refuse("--out {}: {}", folder_, error.message());
}

std::string ReportPage::Output(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {program_};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  std::string command = "attenio";
  for (const std::string& a : arguments) {
    const bool plain = a.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:/=") ==
                       std::string::npos;
    command += plain ? " " + a : fmt::format(" '{}'", a);
  }
  fmt::print(stderr, "{}\n", command);
  body_ += fmt::format("<pre class=command>{}</pre>\n", Escape(command));
  ProcessResult result = RunProcess(argv);
  if (result.exit_code == kExitOk) return std::move(result.out);
  failures_.push_back(fmt::format("{}: exit code {}", command, result.exit_code));
  body_ += fmt::format("<p class=failed>This command ended with exit code {}.</p>\n", result.exit_code);
  return "";
}

Records ReportPage::Run(const std::string& name, const std::vector<std::string>& arguments) {
  const std::string text = Output(arguments);
  WriteText(Path(name + ".jsonl"), text);
  Records records;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    nlohmann::ordered_json record = nlohmann::ordered_json::parse(line, nullptr, false);
    if (record.is_object()) records.push_back(std::move(record));
  }
  return records;
}

std::string ReportPage::RunText(const std::vector<std::string>& arguments) { return Output(arguments); }

void ReportPage::Heading(const std::string& title) { body_ += fmt::format("<h2>{}</h2>\n", Escape(title)); }

void ReportPage::Text(const std::string& html) { body_ += fmt::format("<p>{}</p>\n", html); }

void ReportPage::Preformatted(const std::string& text) { body_ += fmt::format("<pre>{}</pre>\n", Escape(text)); }

void ReportPage::Table(const Records& records, const std::vector<Column>& columns) {
  if (records.empty()) return;
  body_ += "<table><tr>";
  for (const Column& c : columns) body_ += fmt::format("<th>{}</th>", Escape(c.heading));
  body_ += "</tr>\n";
  for (const nlohmann::ordered_json& record : records) {
    body_ += "<tr>";
    for (const Column& c : columns) body_ += Cell(record, c);
    body_ += "</tr>\n";
  }
  body_ += "</table>\n";
}

void ReportPage::Picture(const std::string& name, int width, int height, const std::string& script,
                         const std::string& caption) {
  const std::string svg = Path(name + ".svg");
  DrawPicture(Path(name + ".png"), width, height, Style() + script);
  DrawPicture(svg, width, height, Style() + script);
  body_ += fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", InlineSvg(svg, name), caption);
}

void ReportPage::Command(const std::string& name, std::vector<std::string> arguments, const std::string& caption) {
  const std::string svg = Path(name + ".svg");
  arguments.push_back(svg);
  const size_t failed = failures_.size();
  Output(arguments);
  if (failures_.size() > failed) return;
  body_ += fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", InlineSvg(svg, name), caption);
}

std::string ReportPage::Write(const std::string& title, const std::string& subtitle) {
  const std::string path = Path("index.html");
  WriteText(path,
            fmt::format(
                "<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">"
                "<title>{0}</title><style>{1}</style>\n<h1>{0}</h1><p class=sub>{2}</p>\n{3}</html>\n",
                Escape(title), kCss, subtitle, body_));
  return path;
}

}  // namespace attenio::cli
