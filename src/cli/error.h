// How the command says "no": one exception that carries a sentence for the user. main() turns it into exit code 2.
#ifndef ATTENIO_SRC_CLI_ERROR_H_
#define ATTENIO_SRC_CLI_ERROR_H_

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace attenio::cli {

// Bad usage or bad input. The message names the file or option and what was expected.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void Refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw InputError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_ERROR_H_
