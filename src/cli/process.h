// Other programs, run to their end.
#ifndef ATTENIO_SRC_CLI_PROCESS_H_
#define ATTENIO_SRC_CLI_PROCESS_H_

#include <string>
#include <vector>

namespace attenio::cli {

inline constexpr int kNotStarted = -1;

struct ProcessResult {
  int exit_code = kNotStarted;  // kNotStarted: no such program; 128 + signal when one ended it
  std::string out;              // stdout; stderr is ours
};

// Runs argv[0], looked up in PATH, with the other elements as its arguments, and waits for it.
ProcessResult RunProcess(const std::vector<std::string>& argv);

// The path of this very program.
std::string OwnPath();

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_PROCESS_H_
