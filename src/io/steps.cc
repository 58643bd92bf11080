// ForEachStep: the one place where a Schedule becomes a sequence. Executor, simulators and models are its visitors.
#include <algorithm>

#include "attenio/io.h"
#include "base/math.h"
#include "io/nest.h"

namespace attenio {
namespace {

using io::BlockAt;
using io::Intersect;
using io::TileAt;

bool SharesKeysBetweenAllRows(Dataflow d) { return d == Dataflow::kKeyResident || d == Dataflow::kUnfused; }

class Walk {
 public:
  Walk(const Schedule& schedule, const Shape& shape, StepVisitor visit, int depth)
      : schedule_(schedule), shape_(shape), visit_(visit) {
    const int levels = static_cast<int>(schedule.levels.size());
    whole_ = depth <= 0;
    depth_ = whole_ ? levels : std::min(depth, levels);
    split_ = whole_ ? io::SplitLevel(schedule) : levels;
  }

  void Run(Range rows) {
    const Range keys = shape_.AnyKeys(rows);
    if (depth_ > 0 && !keys.empty()) Level(0, Op::kFused, rows, keys);
    if (has_pending_) {
      pending_.next_queries = pending_.next_keys = {};
      visit_(pending_);
    }
  }

 private:
  int64_t RowsOf(int level) const { return io::RowsOf(schedule_, level); }
  int64_t KeysOf(int level) const { return io::KeysOf(schedule_, level); }

  // One operation on a region that has at least one allowed pair.
  void Level(int level, Op op, Range rows, Range keys) {
    if (level == depth_) return Emit(op, rows, keys);
    switch (op == Op::kFused ? schedule_.levels[level].dataflow : Dataflow::kQueryResident) {
      case Dataflow::kQueryResident:
        return QueryResident(level, op, rows, keys);
      case Dataflow::kKeyResident:
        return KeyResident(level, op, rows, keys);
      case Dataflow::kScoreResident:
        return ScoreResident(level, rows, keys);
      case Dataflow::kRowBuffered:
        return RowBuffered(level, rows, keys);
      case Dataflow::kUnfused:
        return Unfused(level, rows, keys);
    }
  }

  void QueryResident(int level, Op op, Range rows, Range keys) {
    for (Range tile = TileAt(rows.begin, rows.end, RowsOf(level)); !tile.empty();
         tile = TileAt(tile.end, rows.end, RowsOf(level))) {
      const Range mine = Intersect(keys, shape_.AnyKeys(tile));
      for (Range block = BlockAt(mine.begin, mine.end, KeysOf(level)); !block.empty();
           block = BlockAt(block.end, mine.end, KeysOf(level))) {
        Level(level + 1, op, tile, block);
      }
    }
  }

  void KeyResident(int level, Op op, Range rows, Range keys) {
    for (Range block = BlockAt(keys.begin, keys.end, KeysOf(level)); !block.empty();
         block = BlockAt(block.end, keys.end, KeysOf(level))) {
      for (Range tile = TileAt(rows.begin, rows.end, RowsOf(level)); !tile.empty();
           tile = TileAt(tile.end, rows.end, RowsOf(level))) {
        const Range mine = Intersect(block, shape_.AnyKeys(tile));
        if (!mine.empty()) Level(level + 1, op, tile, mine);
      }
    }
  }

  void ScoreResident(int level, Range rows, Range keys) {
    if (level < split_) return QueryResident(level, Op::kFused, rows, keys);
    for (Range tile = TileAt(rows.begin, rows.end, RowsOf(level)); !tile.empty();
         tile = TileAt(tile.end, rows.end, RowsOf(level))) {
      const Range mine = Intersect(keys, shape_.AnyKeys(tile));
      for (Range block = BlockAt(mine.begin, mine.end, KeysOf(level)); !block.empty();
           block = BlockAt(block.end, mine.end, KeysOf(level))) {
        for (const Op op : {Op::kQK, Op::kSoftmax, Op::kPV}) Level(level + 1, op, tile, block);
      }
    }
  }

  void RowBuffered(int level, Range rows, Range keys) {
    for (Range tile = TileAt(rows.begin, rows.end, RowsOf(level)); !tile.empty();
         tile = TileAt(tile.end, rows.end, RowsOf(level))) {
      const Range mine = Intersect(keys, shape_.AnyKeys(tile));
      if (mine.empty()) continue;
      QueryResident(level, Op::kQK, tile, mine);
      Level(level + 1, Op::kSoftmax, tile, mine);
      QueryResident(level, Op::kPV, tile, mine);
    }
  }

  void Unfused(int level, Range rows, Range keys) {
    QueryResident(level, Op::kQK, rows, keys);
    for (Range tile = TileAt(rows.begin, rows.end, RowsOf(level)); !tile.empty();
         tile = TileAt(tile.end, rows.end, RowsOf(level))) {
      const Range mine = Intersect(keys, shape_.AnyKeys(tile));
      if (!mine.empty()) Level(level + 1, Op::kSoftmax, tile, mine);
    }
    QueryResident(level, Op::kPV, rows, keys);
  }

  void Emit(Op op, Range rows, Range keys) {
    Step step;
    step.op = op;
    step.level = depth_ - 1;
    step.queries = rows;
    step.keys = keys;
    step.dims = {0, op == Op::kQK   ? shape_.qk_dim
                    : op == Op::kPV ? shape_.v_dim
                                    : std::max(shape_.qk_dim, shape_.v_dim)};
    const Range any = shape_.AnyKeys(rows);
    step.first = keys.begin == any.begin;
    step.last = keys.end == any.end;
    step.edge = shape_.banded() && Intersect(keys, shape_.AllKeys(rows)).size() != keys.size();
    if (has_pending_) {
      pending_.next_queries = rows;
      pending_.next_keys = keys;
      visit_(pending_);
    }
    pending_ = step;
    has_pending_ = true;
  }

  const Schedule& schedule_;
  const Shape& shape_;
  const StepVisitor visit_;
  int depth_;
  bool whole_;  // every level is expanded
  int split_;   // score-resident levels from here on fall into operations
  Step pending_;  // held back until the step after it is known
  bool has_pending_ = false;
};

}  // namespace

int64_t NumTiles(const Schedule& schedule, const Shape& shape) {
  if (schedule.levels.empty() || shape.rows() <= 0) return 0;
  if (SharesKeysBetweenAllRows(schedule.levels[0].dataflow)) return 1;
  const int64_t size = std::max<int64_t>(1, schedule.levels[0].queries);
  return (shape.rows() - 1) / size + 1;
}

Range TileQueries(const Schedule& schedule, const Shape& shape, int64_t tile) {
  if (schedule.levels.empty() || tile < 0 || tile >= NumTiles(schedule, shape)) return {};
  if (SharesKeysBetweenAllRows(schedule.levels[0].dataflow)) return {0, shape.rows()};
  const int64_t size = std::max<int64_t>(1, schedule.levels[0].queries);
  return TileAt(tile * size, shape.rows(), size);
}

void ForEachStep(const Schedule& schedule, const Shape& shape, Range queries, StepVisitor visit, int depth) {
  const Range rows = Intersect(queries, {0, shape.rows()});
  if (rows.empty()) return;
  Walk(schedule, shape, visit, depth).Run(rows);
}

}  // namespace attenio
