// Where everything lives in the caller's workspace: computed when a call is planned, so that running allocates nothing.
#ifndef ATTENIO_SRC_EXEC_WORKSPACE_H_
#define ATTENIO_SRC_EXEC_WORKSPACE_H_

#include <cstdint>

#include "base/math.h"

namespace attenio {

// Hands out cache-line aligned pieces one after the other; remembers when a sum overflows.
class WorkspaceSizer {
 public:
  int64_t Take(int64_t count, int64_t bytes_each) {
    const int64_t at = size_;
    int64_t bytes = count;
    ok_ = ok_ && MultiplyInto(&bytes, bytes_each) && AddInto(&bytes, kAlignment - 1);
    ok_ = ok_ && AddInto(&size_, RoundDown(bytes, kAlignment));
    return at;
  }
  int64_t size() const { return size_; }
  bool ok() const { return ok_; }

  // Two lines: adjacent-line prefetchers of x86 fetch pairs, so workers' pieces do not share a pair.
  static constexpr int64_t kAlignment = 128;

 private:
  int64_t size_ = 0;
  bool ok_ = true;
};

}  // namespace attenio

#endif  // ATTENIO_SRC_EXEC_WORKSPACE_H_
