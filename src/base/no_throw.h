// The border where the standard library's exceptions become error codes: nothing may throw across attenio's API.
#ifndef ATTENIO_SRC_BASE_NO_THROW_H_
#define ATTENIO_SRC_BASE_NO_THROW_H_

#include <new>
#include <stdexcept>

#include "attenio/status.h"

namespace attenio {

// What `body` returns (a Status or Result), or kOutOfMemory: containers throw when memory is short, and when a size is beyond
// what they could ever hold.
template <class F>
auto NoThrow(F&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status::Error(Code::kOutOfMemory, "not enough memory");
  } catch (const std::length_error&) {
    return Status::Error(Code::kOutOfMemory, "not enough memory: a size is beyond any");
  }
}

}  // namespace attenio

#endif  // ATTENIO_SRC_BASE_NO_THROW_H_
