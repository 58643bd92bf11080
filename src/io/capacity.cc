#include "io/capacity.h"

#include <algorithm>

namespace attenio::io {
namespace {

int64_t Quotient(Wide bytes, Wide fixed, Wide each) {
  if (bytes < fixed) return 0;
  if (each <= 0) return INT64_MAX;
  return static_cast<int64_t>(std::min<Wide>((bytes - fixed) / each, INT64_MAX));
}

}  // namespace

int64_t UsableBytes(const MemoryLevel& level) {
  const int64_t share = level.bytes / std::max<int64_t>(1, level.sharers);
  if (level.ways <= 0) return share;
  if (level.ways == 1) return share / 2;
  return share / level.ways * (level.ways - 1);
}

Wide Residency::Bytes(Dataflow dataflow, int64_t rows, int64_t keys) const {
  const Wide e = dims.element, o = dims.accumulator, n = rows, m = keys;
  const Wide row = dims.qk * e + dims.v * o;                       // Q and O of one row
  const Wide key = (Wide{dims.qk} + dims.v) * e;                   // K and V of one key
  const Wide either = std::max(dims.qk, dims.v) * e;               // K or V of one key
  const Wide statistics = (cache ? 2 : 3) * o;
  const int twice = cache ? 2 : 1;
  switch (dataflow) {
    case Dataflow::kQueryResident:
      return cache ? n * (row + statistics) + 2 * m * key + Wide{strip_rows} * m * o : n * (row + statistics + m * o) + m * either;
    case Dataflow::kKeyResident:
      return twice * n * (row + statistics) + m * key + (cache ? Wide{strip_rows} : n) * m * o;
    case Dataflow::kScoreResident:  // slices of one dim pass
      return n * (m + 3) * o + twice * (n + m) * e;
    case Dataflow::kRowBuffered:
      return n * (row + statistics + kv_len * o) + twice * m * either;
    case Dataflow::kUnfused:  // Q with K into scores, then O with V
      return n * std::max(dims.qk * e, dims.v * o) + twice * (m * either + n * m * o);
  }
  return 0;
}

int64_t Residency::MaxRows(Dataflow dataflow, int64_t bytes, int64_t keys) const {
  const Wide fixed = Bytes(dataflow, 0, keys);
  return Quotient(bytes, fixed, Bytes(dataflow, 1, keys) - fixed);
}

int64_t Residency::MaxKeys(Dataflow dataflow, int64_t bytes, int64_t rows) const {
  const Wide fixed = Bytes(dataflow, rows, 0);
  return Quotient(bytes, fixed, Bytes(dataflow, rows, 1) - fixed);
}

}  // namespace attenio::io
