// Errors as values: a code and a sentence in a fixed-size buffer. attenio never throws across its API and never prints.
#ifndef ATTENIO_STATUS_H_
#define ATTENIO_STATUS_H_

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

namespace attenio {

// The numbers are those of attenio_code in the C API.
enum class Code : int32_t {
  kOk = 0,
  kInvalidArgument = 1,   // an argument is wrong; the message names it and what was expected
  kUnsupported = 2,       // legal, but no kernel of this build on this machine takes it
  kOutOfMemory = 3,
  kWorkspaceTooSmall = 4,
};

class [[nodiscard]] Status {
 public:
  static constexpr int kMessageBytes = 256;

  Status() = default;  // ok

  // printf-style; a message longer than the buffer is cut.
#if defined(__GNUC__)
  __attribute__((format(printf, 2, 3)))
#endif
  static Status Error(Code code, const char* format, ...) {
    Status s;
    s.code_ = code;
    va_list args;
    va_start(args, format);
    std::vsnprintf(s.message_, sizeof(s.message_), format, args);
    va_end(args);
    return s;
  }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const char* message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  char message_[kMessageBytes] = {};
};

// A value or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose
  Result(const Status& error) : status_(error) {}       // NOLINT: implicit on purpose

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace attenio

#endif  // ATTENIO_STATUS_H_
