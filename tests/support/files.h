// Files for tests: a folder of its own per test, whole files as strings, and where the repository's and the shared data are.
#ifndef ATTENIO_TESTS_SUPPORT_FILES_H_
#define ATTENIO_TESTS_SUPPORT_FILES_H_

#include <optional>
#include <string>
#include <vector>

namespace attenio::testing {

// A new empty folder that is removed with everything in it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string ReadWhole(const std::string& path);
void WriteWhole(const std::string& path, const std::string& content);

// tests/data/NAME of the source tree.
std::string DataPath(const std::string& name);

// NAME below the folder that ATTENIO_SHARED names (default: ../shared beside the source tree); nothing when it is not there.
std::optional<std::string> SharedPath(const std::string& name);

// The attenio command of this build.
std::string AttenioPath();

struct CommandResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;
};

// Runs the attenio command with these arguments and `input` on its stdin.
CommandResult RunAttenio(const std::vector<std::string>& arguments, const std::string& input = "");

// The same, but sends `signal` as soon as stdout holds `lines` complete lines (or lets it end by itself before that).
CommandResult InterruptAttenio(const std::vector<std::string>& arguments, int lines, int signal);

}  // namespace attenio::testing

#endif  // ATTENIO_TESTS_SUPPORT_FILES_H_
