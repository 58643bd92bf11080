// Which keys the rows of a call may attend: the arithmetic of causal masks and windows.
#include <algorithm>

#include "attenio/io.h"
#include "base/math.h"

namespace attenio {
namespace {

using Wide = __int128;

// Keys [lo, hi) cut to those that exist; an empty range begins and ends at the same key.
Range ClipKeys(int64_t lo, int64_t hi, int64_t kv_len) {
  lo = std::clamp<int64_t>(lo, 0, kv_len);
  hi = std::clamp<int64_t>(hi, 0, kv_len);
  return {lo, std::max(lo, hi)};
}

// First key that the query at index `query` may attend, and one past the last one, before clipping.
int64_t FirstKey(const Shape& s, int64_t query) {
  if (s.left == kUnbounded) return 0;
  return SaturatingAdd(SaturatingAdd(query, s.offset), -std::max<int64_t>(s.left, -INT64_MAX));
}
int64_t EndKey(const Shape& s, int64_t query) {
  if (s.right == kUnbounded) return s.kv_len;
  return SaturatingAdd(SaturatingAdd(SaturatingAdd(query, s.offset), s.right), 1);
}

// Sum over i in [0, n) of clamp(i + a, 0, m): a ramp between two plateaus.
Wide RampSum(int64_t n, int64_t a, int64_t m) {
  const Wide zero_until = std::clamp<Wide>(-Wide{a}, 0, n);             // i + a <= 0 before this
  const Wide full_from = std::clamp<Wide>(Wide{m} - a, zero_until, n);  // i + a >= m from here on
  const Wide count = full_from - zero_until;
  return count * (zero_until + full_from - 1 + 2 * Wide{a}) / 2 + (Wide{n} - full_from) * m;
}

}  // namespace

Range Shape::AnyKeys(Range rows) const {
  if (rows.empty() || group() <= 0 || kv_len <= 0) return {0, 0};
  return ClipKeys(FirstKey(*this, rows.begin / group()), EndKey(*this, (rows.end - 1) / group()), kv_len);
}

Range Shape::AllKeys(Range rows) const {
  if (rows.empty() || group() <= 0 || kv_len <= 0) return {0, 0};
  return ClipKeys(FirstKey(*this, (rows.end - 1) / group()), EndKey(*this, rows.begin / group()), kv_len);
}

int64_t Shape::AllowedPairs() const {
  if (group() <= 0 || q_len <= 0 || kv_len <= 0) return 0;
  const Wide all = Wide{q_len} * kv_len;
  const Wide ends = right == kUnbounded ? all : RampSum(q_len, SaturatingAdd(SaturatingAdd(offset, right), 1), kv_len);
  const Wide begins = left == kUnbounded
                          ? Wide{0}
                          : RampSum(q_len, SaturatingAdd(offset, -std::max<int64_t>(left, -INT64_MAX)), kv_len);
  const Wide pairs = ends - begins;  // < 2^126; the product with the group is checked against the largest result
  return pairs > Wide{INT64_MAX} / group() ? INT64_MAX : static_cast<int64_t>(pairs * group());
}

double Shape::Flops() const {
  return 2.0 * static_cast<double>(batch) * static_cast<double>(kv_heads) * static_cast<double>(AllowedPairs()) *
         (static_cast<double>(qk_dim) + static_cast<double>(v_dim));
}

}  // namespace attenio
