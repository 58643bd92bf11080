#include "support/files.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace attenio::testing {
namespace fs = std::filesystem;

TempFolder::TempFolder() {
  path_ = (fs::temp_directory_path() / "attenio-test-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary folder");
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

void WriteWhole(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::string DataPath(const std::string& name) { return std::string(ATTENIO_SOURCE_DIR) + "/tests/data/" + name; }

std::optional<std::string> SharedPath(const std::string& name) {
  const char* folder = std::getenv("ATTENIO_SHARED");
  std::string path = folder != nullptr ? folder : std::string(ATTENIO_SOURCE_DIR) + "/../shared";
  path += "/" + name;
  if (!fs::exists(path)) return std::nullopt;
  return path;
}

std::string AttenioPath() {
#ifdef ATTENIO_CLI_PATH
  return ATTENIO_CLI_PATH;
#else
  throw std::runtime_error("this build has no attenio command");
#endif
}

namespace {

// Starts the command, lets `watch` look at it while it runs (its process and the file of its stdout), and waits for its end.
template <class Watch>
CommandResult Start(const std::vector<std::string>& arguments, const std::string& input, Watch watch) {
  const TempFolder folder;
  const std::string in = folder / "in", out = folder / "out", err = folder / "err";
  WriteWhole(in, input);
  WriteWhole(out, "");
  const std::string command = AttenioPath();
  std::vector<char*> argv{const_cast<char*>(command.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    dup2(open(in.c_str(), O_RDONLY), 0);
    dup2(open(out.c_str(), O_WRONLY), 1);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), 2);
    execv(command.c_str(), argv.data());
    _exit(127);
  }
  watch(child, out);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadWhole(out), ReadWhole(err)};
}

}  // namespace

CommandResult RunAttenio(const std::vector<std::string>& arguments, const std::string& input) {
  return Start(arguments, input, [](pid_t, const std::string&) {});
}

CommandResult InterruptAttenio(const std::vector<std::string>& arguments, int lines, int signal) {
  return Start(arguments, "", [=](pid_t child, const std::string& out) {
    siginfo_t info = {};
    while (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
      const std::string text = ReadWhole(out);
      if (std::count(text.begin(), text.end(), '\n') >= lines) {
        kill(child, signal);
        return;
      }
      usleep(1000);
    }
  });
}

}  // namespace attenio::testing
