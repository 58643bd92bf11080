// Output of `attenio accuracy`: text or JSON lines on stdout, and a CSV that keeps what was measured when the run is interrupted.
#ifndef ATTENIO_SRC_CLI_ACCURACY_TABLE_H_
#define ATTENIO_SRC_CLI_ACCURACY_TABLE_H_

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace attenio::cli {

class AccuracyTable {
 public:
  // `csv` may be empty. Throws InputError when the file cannot be written.
  AccuracyTable(const std::string& csv, bool json);
  void Add(const nlohmann::ordered_json& line);

 private:
  void AddText(const nlohmann::ordered_json& line);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> csv_;
  std::string path_;
  bool json_;
  bool first_ = true;
};

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_ACCURACY_TABLE_H_
