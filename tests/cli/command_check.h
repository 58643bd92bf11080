// What command tests share: JSON lines, and refusals.
#ifndef ATTENIO_TESTS_CLI_COMMAND_CHECK_H_
#define ATTENIO_TESTS_CLI_COMMAND_CHECK_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/files.h"

namespace attenio::cli {

inline std::vector<nlohmann::json> Lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// Exit code 2, nothing on stdout, and `reason` in what stderr says.
inline void ExpectRefused(const std::vector<std::string>& arguments, const std::string& reason) {
  const testing::CommandResult r = testing::RunAttenio(arguments);
  EXPECT_EQ(r.exit_code, 2) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find(reason), std::string::npos) << r.err;
}

}  // namespace attenio::cli

#endif  // ATTENIO_TESTS_CLI_COMMAND_CHECK_H_
