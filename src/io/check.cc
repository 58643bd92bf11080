#include "io/check.h"

#include <algorithm>

#include "base/math.h"

namespace attenio::io {

using ll = long long;

Status CheckProblem(const Shape& shape, const SolveOptions& options) {
  // 2^40 keeps every product of four extents and sizes within 128 bits.
  constexpr int64_t kMost = int64_t{1} << 40, kMostRows = int64_t{1} << 62, kMostPosition = int64_t{1} << 60;
  for (const int64_t x :
       {shape.batch, shape.q_heads, shape.kv_heads, shape.q_len, shape.kv_len, shape.qk_dim, shape.v_dim}) {
    if (x >= 0 && x <= kMost) continue;
    return Status::Error(Code::kInvalidArgument, "solve: the shape has an extent of %lld, expected 0 to 2^40", ll{x});
  }
  int64_t rows = shape.group();
  if (!MultiplyInto(&rows, shape.q_len) || rows > kMostRows) {
    return Status::Error(Code::kInvalidArgument,
                         "solve: %lld heads of %lld queries on one KV head, expected at most 2^62 rows",
                         ll{shape.group()}, ll{shape.q_len});
  }
  if (shape.left < kUnbounded || shape.right < kUnbounded || std::max(shape.left, shape.right) > kMostPosition ||
      shape.offset < -kMostPosition || shape.offset > kMostPosition) {
    return Status::Error(
        Code::kInvalidArgument,
        "solve: offset %lld, window %lld to the left and %lld to the right, expected within 2^60 and -1 or more",
        ll{shape.offset}, ll{shape.left}, ll{shape.right});
  }
  if (options.packed_bytes < 1 || options.packed_bytes > 16 || options.out_bytes < 1 || options.out_bytes > 16) {
    return Status::Error(Code::kInvalidArgument,
                         "solve: elements of %lld and accumulators of %lld bytes, expected 1 to 16",
                         ll{options.packed_bytes}, ll{options.out_bytes});
  }
  const Quantum& q = options.quantum;
  constexpr int64_t kMostQuantum = 1 << 20;
  if (q.rows < 1 || q.keys < 1 || q.dims < 1 || q.rows > kMostQuantum || q.keys > kMostQuantum || options.threads < 1) {
    return Status::Error(Code::kInvalidArgument,
                         "solve: quantum %lldx%lldx%lld and %lld threads, expected 1 to 2^20 and at least 1",
                         ll{q.rows}, ll{q.keys}, ll{q.dims}, ll{options.threads});
  }
  return {};
}

Status CheckLevel(const MemoryLevel& l) {
  if (l.bytes >= 0 && l.ways >= 0 && l.sharers >= 1) return {};
  return Status::Error(Code::kInvalidArgument, "solve: level %.30s has %lld bytes, %lld ways, %lld sharers",
                       l.name.c_str(), ll{l.bytes}, ll{l.ways}, ll{l.sharers});
}

}  // namespace attenio::io
