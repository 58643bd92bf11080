// Closed forms for the words that a schedule moves.
#include <algorithm>
#include <numeric>

#include "attenio/io.h"
#include "io/runs.h"

namespace attenio {
namespace {

using io::TileRun;
using io::Wide;

// One end of the keys that the tiles of a run may attend: floor((at + i step) / group) for tile i, to be clipped to [0, keys].
struct Edge {
  Wide at = 0;
  Wide step = 0;
  Wide group = 1;
  int64_t keys = 0;

  // The first of `count` tiles whose end is at least `key`.
  int64_t First(Wide key, int64_t count) const {
    const Wide missing = key * group - at;
    if (missing <= 0) return 0;
    return step == 0 ? count : static_cast<int64_t>(std::min<Wide>((missing + step - 1) / step, count));
  }

  // Sum over `tiles` of floor((clipped end - back) / unit), where every clipped end is at least `back`.
  Wide Sum(Range tiles, int64_t unit, int64_t back) const {
    const int64_t begin = std::max(tiles.begin, First(1, tiles.end));
    const int64_t plateau = std::max(begin, First(keys, tiles.end));
    const Wide ramp = io::FloorSum(plateau - begin, step, at + begin * step - back * group, group * unit);
    return ramp + Wide{std::max<int64_t>(0, tiles.end - plateau)} * ((keys - back) / unit);
  }
};

Edge BeginOfKeys(const Shape& s, const TileRun& run) {
  if (s.left == kUnbounded) return {0, 0, 1, s.kv_len};
  return {run.begin + (Wide{s.offset} - s.left) * s.group(), run.stride, s.group(), s.kv_len};
}

Edge EndOfKeys(const Shape& s, const TileRun& run) {
  if (s.right == kUnbounded) return {s.kv_len, 0, 1, s.kv_len};
  return {Wide{run.begin} + run.size - 1 + (Wide{s.offset} + s.right + 1) * s.group(), run.stride, s.group(), s.kv_len};
}

// Sums over the row tiles of a level, weighted as the dataflows need them.
struct Sums {
  Wide rows = 0;         // rows that attend something
  Wide row_visits = 0;   // rows x pieces of the levels around: how often a row's words come in and go out
  Wide row_blocks = 0;   // rows x pieces of the levels around and this one
  Wide keys = 0;         // keys that the tiles attend: K and V once per tile
  Wide region_keys = 0;  // keys that the tiles of the level around attend
  Wide pairs = 0;        // rows x keys of the tiles
};

// The tiles of a run that attend something, and their keys.
struct RunKeys {
  Edge begin, end;
  Range tiles;

  RunKeys(const Shape& shape, const TileRun& run) : begin(BeginOfKeys(shape, run)), end(EndOfKeys(shape, run)) {
    tiles.begin = end.First(1, run.count);
    tiles.end = std::max(tiles.begin, begin.First(shape.kv_len, run.count));
  }
  Wide Keys() const { return end.Sum(tiles, 1, 0) - begin.Sum(tiles, 1, 0); }

  // Block edges inside the tiles' keys that are multiples of `unit` and of at least one level's size in [level, last): inclusion
  // and exclusion over the levels.
  Wide Edges(const Schedule& s, int level, int last, int64_t unit) const {
    const auto divides = [&](int l) { return unit % io::KeysOf(s, l) == 0; };
    for (int l = level; l < last; ++l) {
      if (divides(l)) return end.Sum(tiles, unit, 1) - begin.Sum(tiles, unit, 0);
    }
    Wide sum = 0;
    for (int l = level; l < last; ++l) {
      const int64_t size = io::KeysOf(s, l);
      const Wide both = Wide{unit} / std::gcd(unit, size) * size;
      if (both > end.keys) continue;
      const auto multiple = static_cast<int64_t>(both);
      sum += end.Sum(tiles, multiple, 1) - begin.Sum(tiles, multiple, 0) - Edges(s, l + 1, last, multiple);
    }
    return sum;
  }
  // Pieces into which the block edges of levels [0, last) cut the tiles' keys.
  Wide Pieces(const Schedule& s, int last) const {
    return last == 0 ? Wide{tiles.size()} : tiles.size() + Edges(s, 0, last, 1);
  }
};

// `around`: region_keys too (a third of the time).
Sums SumTiles(const Schedule& schedule, const Shape& shape, int level, bool around) {
  Sums sums;
  const TileRun all{0, shape.rows(), 0, 1};
  if (around) {
    io::ForEachRun(schedule, shape, 0, level, all,
                   [&](const TileRun& run) { sums.region_keys += RunKeys(shape, run).Keys(); });
  }
  io::ForEachRun(schedule, shape, 0, level + 1, all, [&](const TileRun& run) {
    const RunKeys r(shape, run);
    const Wide keys = r.Keys();
    sums.rows += Wide{run.size} * r.tiles.size();
    sums.row_visits += run.size * r.Pieces(schedule, level);
    sums.row_blocks += run.size * r.Pieces(schedule, level + 1);
    sums.keys += keys;
    sums.pairs += run.size * keys;
  });
  return sums;
}

}  // namespace

Traffic Predict(const Schedule& schedule, const Shape& shape, int level, RowStats stats) {
  Traffic t;
  if (level < 0 || level >= static_cast<int>(schedule.levels.size()) || shape.rows() <= 0 || shape.kv_len <= 0) {
    return t;
  }
  const Dataflow d = io::SplitAround(schedule, level) ? Dataflow::kUnfused : schedule.levels[level].dataflow;
  const Sums c = SumTiles(schedule, shape, level, d == Dataflow::kKeyResident);
  const bool streams_rows = d == Dataflow::kKeyResident || d == Dataflow::kScoreResident;
  const Wide row_moves = streams_rows ? c.row_blocks : c.row_visits;
  const Wide stats_moves = d == Dataflow::kKeyResident ? c.row_blocks : c.row_visits;
  const Wide key_moves = d == Dataflow::kKeyResident ? c.region_keys : c.keys;
  const auto words = [](Wide count) { return static_cast<double>(count); };
  const double dk = words(shape.qk_dim), dv = words(shape.v_dim);
  t.q = words(row_moves) * dk;
  t.out = words(2 * row_moves - c.rows) * dv;  // the first visit reads no O
  t.k = words(key_moves) * dk;
  t.v = words(key_moves) * dv;
  // Two words a row: in at every visit but the first, out at every one, the last one's only if written back.
  t.stats = words(2 * (2 * stats_moves - c.rows - (stats == RowStats::kDropped ? c.rows : 0)));
  if (d == Dataflow::kUnfused) t.scores = words(4 * c.pairs);  // scores out, in; probabilities out, in
  return t;
}

double PackingWords(const Schedule& schedule, const Shape& shape) {
  if (schedule.packing == Packing::kBlock) return 0;
  return 2.0 * static_cast<double>(shape.kv_len) *
         (static_cast<double>(shape.qk_dim) + static_cast<double>(shape.v_dim));
}

}  // namespace attenio
