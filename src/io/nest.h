// How the tiles of nested levels cut rows and keys: shared by the walk over a schedule and the closed forms about it.
#ifndef ATTENIO_SRC_IO_NEST_H_
#define ATTENIO_SRC_IO_NEST_H_

#include <algorithm>
#include <cstdint>

#include "attenio/io.h"

namespace attenio::io {

inline int64_t RowsOf(const Schedule& s, int level) { return std::max<int64_t>(1, s.levels[level].queries); }
inline int64_t KeysOf(const Schedule& s, int level) { return std::max<int64_t>(1, s.levels[level].keys); }

inline Range Intersect(Range a, Range b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Rows from `begin`, at most `size` of them: row tiles are counted from the begin of the tile around them.
inline Range TileAt(int64_t begin, int64_t end, int64_t size) { return {begin, end - begin <= size ? end : begin + size}; }

// Keys from `begin` to the next absolute multiple of `size`.
inline Range BlockAt(int64_t begin, int64_t end, int64_t size) {
  const int64_t rest = size - begin % size;
  return {begin, end - begin <= rest ? end : begin + rest};
}

// The first level whose score-resident tiles fall into their operations when the whole schedule is walked: the innermost one, or
// the one around it if that is score-resident too (scores in a cache, register tiles of them inside).
inline int SplitLevel(const Schedule& s) {
  const int last = static_cast<int>(s.levels.size()) - 1;
  return last > 0 && s.levels[last - 1].dataflow == Dataflow::kScoreResident ? last - 1 : last;
}

// Whether a level around `level` has cut the work into operations before `level` sees it, when `level` is the innermost one that
// is expanded (the whole schedule if it is the last).
inline bool SplitAround(const Schedule& s, int level) {
  const bool whole = level + 1 == static_cast<int>(s.levels.size());
  for (int j = 0; j < level; ++j) {
    const Dataflow d = s.levels[j].dataflow;
    if (d == Dataflow::kRowBuffered || d == Dataflow::kUnfused) return true;
    if (d == Dataflow::kScoreResident && whole && j >= SplitLevel(s)) return true;
  }
  return false;
}

// The depth to give to ForEachStep so that `level` is the innermost expanded one, operations included where it is the last.
inline int DepthOf(const Schedule& s, int level) { return level + 1 == static_cast<int>(s.levels.size()) ? 0 : level + 1; }

}  // namespace attenio::io

#endif  // ATTENIO_SRC_IO_NEST_H_
