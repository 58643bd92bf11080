// Closed forms for the words that a schedule moves.
#include <algorithm>
#include <numeric>

#include "attenio/io.h"
#include "base/math.h"
#include "io/nest.h"

namespace attenio {
namespace {

using Wide = __int128;

// Multiples of at least one of the sizes of levels [level, end) that are multiples of `unit` too and lie in (0, x]:
// inclusion and exclusion over the levels.
int64_t Multiples(const Schedule& s, int level, int end, Wide unit, int64_t x) {
  int64_t count = 0;
  for (int l = level; l < end; ++l) {
    const Wide size = io::KeysOf(s, l);
    Wide a = unit, b = size;
    while (b != 0) std::swap(a %= b, b);
    const Wide both = unit / a * size;
    if (both > x) continue;
    count += static_cast<int64_t>(x / both) - Multiples(s, l + 1, end, both, x);
  }
  return count;
}

// Pieces into which the block edges of levels [0, end) cut `keys`.
int64_t Pieces(const Schedule& s, int end, Range keys) {
  if (keys.empty()) return 0;
  return 1 + Multiples(s, 0, end, 1, keys.end - 1) - Multiples(s, 0, end, 1, keys.begin);
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

struct Counter {
  const Schedule& schedule;
  const Shape& shape;
  int level;
  Sums sums;

  void AddTile(Range rows, Wide times) {
    const Range keys = shape.AnyKeys(rows);
    if (keys.empty()) return;
    const Wide n = times * rows.size();
    sums.rows += n;
    sums.row_visits += n * Pieces(schedule, level, keys);
    sums.row_blocks += n * Pieces(schedule, level + 1, keys);
    sums.keys += times * keys.size();
    sums.pairs += n * keys.size();
  }

  // Without a band all tiles of one size are alike: `times` of them at once.
  void Cut(int at, Range rows, Wide times) {
    if (rows.empty()) return;
    if (at == level) sums.region_keys += times * shape.AnyKeys(rows).size();
    if (at > level) return AddTile(rows, times);
    const int64_t size = io::RowsOf(schedule, at);
    if (!shape.banded()) {
      const int64_t full = rows.size() / size;
      if (full > 0) Cut(at + 1, {0, size}, times * full);
      return Cut(at + 1, {0, rows.size() - full * size}, times);
    }
    for (Range tile = io::TileAt(rows.begin, rows.end, size); !tile.empty(); tile = io::TileAt(tile.end, rows.end, size)) {
      Cut(at + 1, tile, times);
    }
  }
};

}  // namespace

Traffic Predict(const Schedule& schedule, const Shape& shape, int level, RowStats stats) {
  Traffic t;
  if (level < 0 || level >= static_cast<int>(schedule.levels.size()) || shape.rows() <= 0) return t;
  Counter counter{schedule, shape, level, {}};
  counter.Cut(0, {0, shape.rows()}, 1);
  const Sums& c = counter.sums;
  const Dataflow d = io::SplitAround(schedule, level) ? Dataflow::kUnfused : schedule.levels[level].dataflow;
  const bool streams_rows = d == Dataflow::kKeyResident || d == Dataflow::kScoreResident;
  const Wide row_moves = streams_rows ? c.row_blocks : c.row_visits;
  const Wide stats_moves = d == Dataflow::kKeyResident ? c.row_blocks : c.row_visits;
  const Wide key_moves = d == Dataflow::kKeyResident ? c.region_keys : c.keys;
  const auto words = [](Wide count) { return static_cast<double>(count); };
  t.q = words(row_moves * shape.qk_dim);
  t.out = words((2 * row_moves - c.rows) * shape.v_dim);  // the first visit reads no O
  t.k = words(key_moves * shape.qk_dim);
  t.v = words(key_moves * shape.v_dim);
  // Two words a row: in at every visit but the first, out at every one, the last one's only if written back.
  t.stats = words(2 * (2 * stats_moves - c.rows - (stats == RowStats::kDropped ? c.rows : 0)));
  if (d == Dataflow::kUnfused) t.scores = words(4 * c.pairs);  // scores out, in; probabilities out, in
  return t;
}

double PackingWords(const Schedule& schedule, const Shape& shape) {
  if (schedule.packing == Packing::kBlock) return 0;
  return 2.0 * static_cast<double>(shape.kv_len) * (static_cast<double>(shape.qk_dim) + static_cast<double>(shape.v_dim));
}

}  // namespace attenio
