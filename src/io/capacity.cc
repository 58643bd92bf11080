#include "io/capacity.h"

#include <algorithm>

namespace attenio::io {
namespace {

int64_t Quotient(Wide bytes, Wide fixed, Wide per_row) {
  if (bytes < fixed || per_row <= 0) return bytes < fixed ? 0 : INT64_MAX;
  return static_cast<int64_t>(std::min<Wide>((bytes - fixed) / per_row, INT64_MAX));
}

}  // namespace

int64_t UsableBytes(const MemoryLevel& level) {
  const int64_t share = level.bytes / std::max<int64_t>(1, level.sharers);
  if (level.ways <= 0) return share;
  if (level.ways == 1) return share / 2;
  return share / level.ways * (level.ways - 1);
}

Wide Residency::QueryBytes(int64_t rows, int64_t keys) const {
  const Wide row = Wide{dims.qk} * dims.element + Wide{dims.v} * dims.accumulator;
  if (!cache) {
    return rows * (row + (3 + Wide{keys}) * dims.accumulator) + Wide{keys} * std::max(dims.qk, dims.v) * dims.element;
  }
  return rows * (row + 2 * Wide{dims.accumulator}) + 2 * Wide{keys} * (Wide{dims.qk} + dims.v) * dims.element +
         Wide{strip_rows} * keys * dims.accumulator;
}

int64_t Residency::MaxQueryRows(int64_t bytes, int64_t keys) const {
  const Wide fixed = QueryBytes(0, keys);
  return Quotient(bytes, fixed, QueryBytes(1, keys) - fixed);
}

Wide Residency::ScoreBytes(int64_t rows, int64_t keys) const {
  const int buffers = cache ? 2 : 1;
  return Wide{rows} * (keys + 3) * dims.accumulator + buffers * (Wide{rows} + keys) * dims.element;
}

int64_t Residency::MaxScoreRows(int64_t bytes, int64_t keys) const {
  const Wide fixed = ScoreBytes(0, keys);
  return Quotient(bytes, fixed, ScoreBytes(1, keys) - fixed);
}

}  // namespace attenio::io
