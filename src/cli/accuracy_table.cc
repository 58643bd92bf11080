#include "cli/accuracy_table.h"

#include <fmt/format.h>

#include "cli/error.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

// Every column of the CSV, in order; what a line does not have stays empty.
constexpr const char* kColumns[] = {"method",
                                    "distribution",
                                    "n",
                                    "d",
                                    "bound",
                                    "degree",
                                    "dtype",
                                    "threads",
                                    "max_error",
                                    "features",
                                    "certified",
                                    "error_max",
                                    "error_rmse",
                                    "error_relative",
                                    "error_p50",
                                    "error_p90",
                                    "error_p99",
                                    "kl",
                                    "not_finite",
                                    "certified_over_error",
                                    "exact_rows",
                                    "outlier_keys",
                                    "blocks_skipped",
                                    "blocks_poly",
                                    "blocks_exact",
                                    "path",
                                    "regime",
                                    "time_ms",
                                    "exact_ms",
                                    "speedup_over_exact",
                                    "predicted_gain",
                                    "bytes_predicted",
                                    "bytes_simulated",
                                    "status",
                                    "reason"};

std::string Cell(const ordered_json& line, const char* key) {
  const auto it = line.find(key);
  if (it == line.end() || it->is_null()) return "";
  if (!it->is_string()) return it->dump();
  std::string quoted = "\"";
  for (char c : it->get<std::string>()) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string Number(const ordered_json& line, const char* key, const char* format) {
  const auto it = line.find(key);
  if (it == line.end() || !it->is_number()) return "-";
  return fmt::format(fmt::runtime(format), it->get<double>());
}

}  // namespace

AccuracyTable::AccuracyTable(const std::string& csv, bool json) : path_(csv), json_(json) {
  if (csv.empty()) return;
  csv_.reset(std::fopen(csv.c_str(), "w"));
  if (csv_ == nullptr) Refuse("--out {}: cannot write there", csv);
  std::string head;
  for (const char* column : kColumns) head += fmt::format("{}{}", head.empty() ? "" : ",", column);
  fmt::print(csv_.get(), "{}\n", head);
}

void AccuracyTable::Add(const ordered_json& line) {
  if (csv_ != nullptr) {
    std::string row;
    bool first = true;
    for (const char* column : kColumns) {
      row += fmt::format("{}{}", first ? "" : ",", Cell(line, column));
      first = false;
    }
    fmt::print(csv_.get(), "{}\n", row);
    if (std::fflush(csv_.get()) != 0) Refuse("--out {}: cannot write there", path_);
  }
  if (json_) {
    fmt::print("{}\n", line.dump());
  } else {
    AddText(line);
  }
  std::fflush(stdout);
}

void AccuracyTable::AddText(const ordered_json& line) {
  if (first_) {
    fmt::print(
        "errors relative to the value range of each column; certified: at most; p99: of the largest error of a row\n");
    fmt::print("{:<14}{:<10}{:>7}{:>5}{:>6}{:>4}{:>8}{:>10}{:>10}{:>10}{:>10}{:>9}{:>7}{:>17}{:>10}{:>9}{:>9}\n",
               "method", "problem", "n", "d", "bound", "deg", "allowed", "max", "rmse", "p99", "certified", "KL",
               "exact%", "skip/poly/exact%", "ms", "x exact", "MB");
    first_ = false;
  }
  const auto text = [&](const char* key) { return line[key].get<std::string>(); };
  fmt::print("{:<14}{:<10}{:>7}{:>5}{:>6}{:>4}", text("method"), text("distribution"), Number(line, "n", "{:.0f}"),
             Number(line, "d", "{:.0f}"), Number(line, "bound", "{:.3g}"), Number(line, "degree", "{:.0f}"));
  if (!line.contains("time_ms")) {
    fmt::print("  {}\n", text("status"));
    return;
  }
  std::string blocks = "-", exact_rows = "-";
  if (line.contains("exact_rows")) {
    exact_rows = fmt::format("{:.1f}", 100 * line["exact_rows"].get<double>());
    const double skipped = line["blocks_skipped"].get<double>(), poly = line["blocks_poly"].get<double>(),
                 exact = line["blocks_exact"].get<double>();
    const double all = (skipped + poly + exact) / 100;
    if (all > 0) blocks = fmt::format("{:.1f}/{:.1f}/{:.1f}", skipped / all, poly / all, exact / all);
  }
  const double bytes = line.contains("bytes_predicted") ? line["bytes_predicted"].get<double>() / 1e6 : -1;
  fmt::print("{:>8}{:>10}{:>10}{:>10}{:>10}{:>9}{:>7}{:>17}{:>10}{:>9}{:>9}", Number(line, "max_error", "{:.1e}"),
             Number(line, "error_max", "{:.2e}"), Number(line, "error_rmse", "{:.2e}"),
             Number(line, "error_p99", "{:.2e}"), Number(line, "certified", "{:.2e}"), Number(line, "kl", "{:.1e}"),
             exact_rows, blocks, Number(line, "time_ms", "{:.3f}"), Number(line, "speedup_over_exact", "{:.2f}"),
             bytes < 0 ? "-" : fmt::format("{:.2f}", bytes));
  if (line.contains("reason") && !text("reason").empty()) fmt::print("  {}", text("reason"));
  if (text("status") != "ok") fmt::print("  {}", text("status"));
  fmt::print("\n");
}

}  // namespace attenio::cli
