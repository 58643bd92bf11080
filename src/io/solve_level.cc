// The best tile for one memory level: capacity against the closed forms of predict.cc.
#include <algorithm>
#include <cmath>

#include "attenio/io.h"
#include "base/math.h"
#include "io/capacity.h"
#include "io/check.h"

namespace attenio {
namespace {

using io::Residency;

// Every number of row tiles is tried for score-resident tiles while there are no more than this (rows <= 16384): about 15 us. Beyond,
// sizes 1/32 apart within a factor 4 of the analytic optimum: the cost is flat there, within 5e-4 of the best. With a band, whose
// sums take ten times as long and may move the optimum, sizes 1/8 apart: within 2 %.
constexpr int64_t kMaxSplits = 256;
struct Spread {
  int64_t factor, steps;
};
constexpr Spread kFine{4, 32}, kBand{4, 8};

struct Search {
  const Shape& shape;
  const SolveOptions& options;
  Residency residency;
  int64_t bytes;
  int64_t rows;  // at least 1
  int64_t keys;
  mutable Schedule schedule;

  int64_t RoundRows(int64_t x) const { return RoundDown(std::min(x, INT64_MAX / 2), options.quantum.rows); }
  int64_t RoundKeys(int64_t x) const { return RoundDown(std::min(x, INT64_MAX / 2), options.quantum.keys); }

  // Fewest passes with at most `most`, all of one size.
  static int64_t Balance(int64_t total, int64_t most, int64_t quantum) {
    most = std::min(most, RoundUp(total, quantum));
    return RoundUp(CeilDiv(total, CeilDiv(total, most)), quantum);
  }

  // Tiles whose traffic depends on the number of row tiles only: as many rows as fit beside one quantum of keys.
  bool ByRows(LevelTile* tile) const {
    const int64_t most = RoundRows(residency.MaxRows(tile->dataflow, bytes, options.quantum.keys));
    if (most < 1) return false;
    tile->queries = Balance(rows, most, options.quantum.rows);
    tile->keys = options.quantum.keys;
    return true;
  }

  bool ByKeys(LevelTile* tile) const {
    const int64_t most = RoundKeys(residency.MaxKeys(tile->dataflow, bytes, options.quantum.rows));
    if (most < 1) return false;
    tile->keys = Balance(keys, most, options.quantum.keys);
    tile->queries = options.quantum.rows;
    return true;
  }

  // Rows and keys trade against each other: for every number of row tiles the most keys that fit.
  bool ByBoth(LevelTile* tile) const {
    const int64_t most = std::min(RoundRows(residency.MaxRows(tile->dataflow, bytes, options.quantum.keys)),
                                  RoundUp(rows, options.quantum.rows));
    if (most < 1) return false;
    double best = INFINITY;
    const bool all = !shape.banded() && rows <= kMaxSplits * kMaxSplits / 4;  // 2 sqrt(rows) different ones
    const Spread spread = shape.banded() ? kBand : kFine;
    const double words = static_cast<double>(bytes) / static_cast<double>(options.out_bytes);
    const auto centre = static_cast<int64_t>(std::sqrt(2 * words / 3));
    int64_t size = options.quantum.rows, last = most;
    if (!all) {
      size = std::clamp(RoundRows(centre / spread.factor), size, most);
      last = std::min(most, spread.factor * centre);
    }
    while (size <= last || size == most) {
      LevelTile t = *tile;
      t.queries = Balance(rows, size, options.quantum.rows);
      const int64_t most_keys = RoundKeys(residency.MaxKeys(t.dataflow, bytes, t.queries));
      if (most_keys >= 1) {
        t.keys = Balance(keys, most_keys, options.quantum.keys);
        const double cost = Cost(t);
        if (cost < best) {
          best = cost;
          tile->queries = t.queries;
          tile->keys = t.keys;
        }
      }
      // The smallest size that makes one row tile less.
      const int64_t tiles = CeilDiv(rows, size);
      if (tiles == 1) break;
      const int64_t fewer = RoundUp(CeilDiv(rows, tiles - 1), options.quantum.rows);
      size = std::max(size + options.quantum.rows,
                      all ? fewer : std::max(fewer, RoundUp(size + size / spread.steps, options.quantum.rows)));
    }
    return best < INFINITY;
  }

  double Cost(const LevelTile& tile) const {
    LevelTile& only = schedule.levels[0];  // one schedule for all candidates: no allocation in the search
    only.dataflow = tile.dataflow;
    only.queries = tile.queries;
    only.keys = tile.keys;
    return Bytes(Predict(schedule, shape, 0, RowStats::kDropped), options);
  }

  bool Find(LevelTile* tile) const {
    switch (tile->dataflow) {
      case Dataflow::kKeyResident:
        return ByKeys(tile);
      case Dataflow::kScoreResident:
        return ByBoth(tile);
      default:
        return ByRows(tile);
    }
  }
};

Search MakeSearch(const Shape& shape, const MemoryLevel& level, const SolveOptions& options) {
  const io::Dims dims{shape.qk_dim, shape.v_dim, options.packed_bytes, options.out_bytes};
  return {shape,
          options,
          {level.ways > 0, dims, level.ways > 0 ? options.quantum.rows : 0, shape.kv_len},
          io::UsableBytes(level),
          std::max<int64_t>(1, shape.rows()),
          std::max<int64_t>(1, shape.kv_len),
          Schedule{{LevelTile{}}, Packing::kHead}};
}

Status NoneFits(const Shape& shape, const MemoryLevel& level, const char* what) {
  return Status::Error(
      Code::kInvalidArgument, "solve: no %s tile of a %lld/%lld-dim problem fits into level %.30s (%lld bytes usable)",
      what, (long long)shape.qk_dim, (long long)shape.v_dim, level.name.c_str(), (long long)io::UsableBytes(level));
}

}  // namespace

double Bytes(const Traffic& t, const SolveOptions& options) {
  return (t.q + t.k + t.v + t.packing) * static_cast<double>(options.packed_bytes) +
         (t.out + t.scores + t.stats) * static_cast<double>(options.out_bytes);
}

Result<LevelTile> SolveLevel(const Shape& shape, const MemoryLevel& level, const SolveOptions& options,
                             Dataflow dataflow) {
  if (Status s = io::CheckProblem(shape, options); !s.ok()) return s;
  if (Status s = io::CheckLevel(level); !s.ok()) return s;
  LevelTile tile{level.name, dataflow, 1, 1};
  if (!MakeSearch(shape, level, options).Find(&tile)) return NoneFits(shape, level, Name(dataflow));
  return tile;
}

Result<LevelTile> SolveLevel(const Shape& shape, const MemoryLevel& level, const SolveOptions& options) {
  if (Status s = io::CheckProblem(shape, options); !s.ok()) return s;
  if (Status s = io::CheckLevel(level); !s.ok()) return s;
  const Search search = MakeSearch(shape, level, options);
  LevelTile best;
  double best_cost = INFINITY;
  // The order decides ties: what the executor runs comes first.
  for (const Dataflow d : {Dataflow::kQueryResident, Dataflow::kScoreResident, Dataflow::kKeyResident,
                           Dataflow::kRowBuffered, Dataflow::kUnfused}) {
    LevelTile tile{level.name, d, 1, 1};
    if (!search.Find(&tile)) continue;
    const double cost = search.Cost(tile);
    if (cost < best_cost) {
      best_cost = cost;
      best = tile;
    }
  }
  if (best_cost == INFINITY) return NoneFits(shape, level, "single");
  return best;
}

}  // namespace attenio
