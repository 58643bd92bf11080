// The explicit scratchpad: walks the steps and keeps track, row by row, of what lies where.
#include <algorithm>
#include <vector>

#include "attenio/io.h"
#include "io/nest.h"

namespace attenio {
namespace {

// Where the partial result of a row is.
enum class Place : uint8_t { kNowhere, kFast, kSlow };

class Scratchpad {
 public:
  Scratchpad(const Schedule& schedule, const Shape& shape, int level, RowStats stats)
      : schedule_(schedule), shape_(shape), level_(level), convention_(stats) {
    split_around_ = io::SplitAround(schedule, level);
    dataflow_ = split_around_ ? Dataflow::kUnfused : schedule.levels[level].dataflow;
    out_.assign(shape.rows(), Place::kNowhere);
    stats_.assign(shape.rows(), Place::kNowhere);
    done_.assign(shape.rows(), false);
  }

  void Visit(const Step& step) {
    if (NewRegion(step)) Empty();
    switch (dataflow_) {
      case Dataflow::kQueryResident: return OnQueryResident(step);
      case Dataflow::kKeyResident: return OnKeyResident(step);
      case Dataflow::kScoreResident: return OnScoreResident(step);
      case Dataflow::kRowBuffered: return OnOperation(step, 0);
      case Dataflow::kUnfused: return OnOperation(step, 1);
    }
  }

  Traffic Finish() {
    Empty();
    return t_;
  }

 private:
  // Row tile of the level around this one, by cutting as the walk does.
  Range RegionRows(const Step& step) const {
    Range region{0, shape_.rows()};
    for (int l = 0; l < level_; ++l) {
      const int64_t size = io::RowsOf(schedule_, l);
      region = io::TileAt(region.begin + (step.queries.begin - region.begin) / size * size, region.end, size);
    }
    return region;
  }

  // Whether the step belongs to another step of the level around than the one before it.
  bool NewRegion(const Step& step) {
    std::vector<int64_t> id{split_around_ ? static_cast<int64_t>(step.op) : 0};
    if (level_ > 0) id.push_back(RegionRows(step).begin);
    // A softmax that a level around has cut out spans that level's key blocks.
    const bool spans = split_around_ && step.op == Op::kSoftmax;
    for (int l = 0; l < level_; ++l) id.push_back(spans ? 0 : step.keys.begin / io::KeysOf(schedule_, l));
    const bool changed = id != region_;
    region_ = id;
    return changed;
  }

  void LoadQ(Range rows) { t_.q += static_cast<double>(rows.size() * shape_.qk_dim); }
  void LoadK(Range keys) { t_.k += static_cast<double>(keys.size() * shape_.qk_dim); }
  void LoadV(Range keys) { t_.v += static_cast<double>(keys.size() * shape_.v_dim); }

  void LoadOut(Range rows) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      if (out_[r] == Place::kSlow) t_.out += static_cast<double>(shape_.v_dim);
      out_[r] = Place::kFast;
    }
  }
  void StoreOut(Range rows) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      if (out_[r] == Place::kFast) {
        t_.out += static_cast<double>(shape_.v_dim);
        out_[r] = Place::kSlow;
      }
    }
  }
  void LoadStats(Range rows) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      if (stats_[r] == Place::kSlow) t_.stats += 2;
      stats_[r] = Place::kFast;
    }
  }
  void StoreStats(Range rows) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      if (stats_[r] != Place::kFast) continue;
      if (!done_[r] || convention_ == RowStats::kWrittenBack) t_.stats += 2;
      stats_[r] = Place::kSlow;
    }
  }
  void MarkDone(const Step& step) {
    if (!step.last) return;
    std::fill(done_.begin() + step.queries.begin, done_.begin() + step.queries.end, true);
  }

  // Everything that must survive goes out.
  void Empty() {
    StoreOut(rows_);
    StoreStats(rows_);
    StoreStats(stats_rows_);
    rows_ = stats_rows_ = q_rows_ = keys_ = {};
  }

  // Q, O and statistics of `rows` stay from here on.
  void HoldRows(Range rows) {
    if (rows == rows_) return;
    StoreOut(rows_);
    StoreStats(rows_);
    rows_ = rows;
    LoadOut(rows);
    LoadStats(rows);
  }

  void OnQueryResident(const Step& step) {
    if (!(step.queries == rows_)) LoadQ(step.queries);
    HoldRows(step.queries);
    LoadK(step.keys);
    LoadV(step.keys);
    MarkDone(step);
  }

  void OnKeyResident(const Step& step) {
    // The whole block, as far as any row of the region attends it, is fetched when its first row arrives.
    const int64_t size = io::KeysOf(schedule_, level_);
    const int64_t first = step.keys.begin / size * size;
    Range block = io::Intersect({first, first + size}, shape_.AnyKeys(RegionRows(step)));
    for (int l = 0; l < level_; ++l) {
      const int64_t outer = io::KeysOf(schedule_, l);
      const int64_t from = step.keys.begin / outer * outer;
      block = io::Intersect(block, {from, from + outer});
    }
    if (!(block == keys_)) {
      LoadK(block);
      LoadV(block);
      keys_ = block;
    }
    LoadQ(step.queries);
    LoadOut(step.queries);
    LoadStats(step.queries);
    MarkDone(step);
    StoreOut(step.queries);
    StoreStats(step.queries);
  }

  void OnScoreResident(const Step& step) {
    const bool fused = step.op == Op::kFused;
    if (fused || step.op == Op::kQK) {
      LoadQ(step.queries);
      LoadK(step.keys);
    }
    if (fused || step.op == Op::kSoftmax) {
      if (!(step.queries == stats_rows_)) {
        StoreStats(stats_rows_);
        stats_rows_ = step.queries;
        LoadStats(step.queries);
      }
      MarkDone(step);
    }
    if (fused || step.op == Op::kPV) {
      LoadV(step.keys);
      LoadOut(step.queries);
      StoreOut(step.queries);
    }
  }

  // QK and PV with their row tile resident. `spill` 1: scores and probabilities pass through slow memory.
  void OnOperation(const Step& step, int spill) {
    const double pairs = static_cast<double>(step.queries.size()) * static_cast<double>(step.keys.size());
    if (step.op == Op::kQK) {
      if (!(step.queries == q_rows_)) LoadQ(step.queries);
      q_rows_ = step.queries;
      LoadK(step.keys);
      t_.scores += spill * pairs;
    }
    if (step.op == Op::kSoftmax) t_.scores += spill * 2 * pairs;
    if (step.op == Op::kPV) {
      HoldRows(step.queries);
      LoadV(step.keys);
      t_.scores += spill * pairs;
      MarkDone(step);
    }
  }

  const Schedule& schedule_;
  const Shape& shape_;
  const int level_;
  const RowStats convention_;
  Dataflow dataflow_;
  bool split_around_ = false;
  std::vector<Place> out_, stats_;
  std::vector<bool> done_;
  std::vector<int64_t> region_;
  Range rows_, q_rows_, stats_rows_, keys_;
  Traffic t_;
};

}  // namespace

Traffic SimulateScratchpad(const Schedule& schedule, const Shape& shape, int level, RowStats stats) {
  if (level < 0 || level >= static_cast<int>(schedule.levels.size()) || shape.rows() <= 0) return {};
  Scratchpad pad(schedule, shape, level, stats);
  const int depth = io::DepthOf(schedule, level);
  for (int64_t tile = 0; tile < NumTiles(schedule, shape); ++tile) {
    ForEachStep(schedule, shape, TileQueries(schedule, shape, tile), [&pad](const Step& step) { pad.Visit(step); }, depth);
  }
  return pad.Finish();
}

}  // namespace attenio
