// Lower bounds on the words that any schedule of a class must move. The classes are told apart, since the constants differ.
#include <algorithm>
#include <cmath>

#include "attenio/io.h"

namespace attenio {

const char* Name(BoundKind kind) {
  switch (kind) {
    case BoundKind::kCompulsory: return "compulsory";
    case BoundKind::kScoreOnce: return "score-once";
    case BoundKind::kPairsResident: return "pairs-resident";
    case BoundKind::kOrder: return "order";
  }
  return "";
}

double LowerBound(const Shape& shape, double words, BoundKind kind) {
  const double pairs = static_cast<double>(shape.AllowedPairs());
  const double d = static_cast<double>(std::min(shape.qk_dim, shape.v_dim));
  const double s = std::max(words, 1.0);
  if (kind == BoundKind::kOrder) return s >= d * d ? pairs * d * d / s : pairs * d / std::sqrt(s);
  // Rows and keys without a partner need not move.
  const Range keys = shape.AnyKeys({0, shape.rows()});
  int64_t rows = keys.empty() ? 0 : shape.rows();
  if (!keys.empty() && shape.banded()) {
    // Positions of queries that attend something: those whose window meets [0, kv_len).
    const int64_t g = shape.group();
    int64_t first = 0, last = shape.q_len - 1;
    if (shape.right != kUnbounded) first = std::max(first, -(shape.offset + shape.right));
    if (shape.left != kUnbounded) last = std::min(last, shape.kv_len - 1 - shape.offset + shape.left);
    rows = std::max<int64_t>(0, last - first + 1) * g;
  }
  const double dims = static_cast<double>(shape.qk_dim) + static_cast<double>(shape.v_dim);
  const double compulsory = (static_cast<double>(rows) + static_cast<double>(keys.size())) * dims;
  if (kind == BoundKind::kCompulsory) return compulsory;
  const double once = std::max(compulsory, 2 * pairs * d * d / (s + 2 * d * d) - s);
  if (kind == BoundKind::kScoreOnce) return once;
  return std::max(once, 4 * pairs * d * d / s - s - static_cast<double>(rows) * d);
}

}  // namespace attenio
