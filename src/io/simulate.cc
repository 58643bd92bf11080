// The steps of a schedule through a line-granular cache hierarchy, with the memory layout of the executor.
#include <algorithm>

#include "attenio/io.h"
#include "base/math.h"
#include "base/no_throw.h"
#include "io/cache.h"
#include "io/check.h"
#include "io/nest.h"

namespace attenio {
namespace {

class Replay {
 public:
  Replay(const Schedule& schedule, const Shape& shape, const CacheOptions& options, io::CacheStack* stack)
      : schedule_(schedule), shape_(shape), options_(options), stack_(*stack) {
    const int levels = static_cast<int>(schedule.levels.size());
    depth_ = options.depth <= 0 || options.depth >= levels ? 0 : options.depth;
    block_ = std::min(io::KeysOf(schedule, 0), std::max<int64_t>(1, shape.kv_len));
    FindScoreBuffer(depth_ == 0 ? levels : depth_);
    tile_rows_ = NumTiles(schedule, shape) > 0 ? TileQueries(schedule, shape, 0).size() : 0;
    q_row_ = shape.qk_dim * options.packed_bytes;
    v_row_ = shape.v_dim * options.packed_bytes;
    o_row_ = shape.v_dim * options.out_bytes;
    workers_.resize(static_cast<size_t>(options.threads));
    for (Worker& w : workers_) Allocate(&w);
  }

  // Tiles in rounds of one for each thread, whose steps take turns: threads sweep K and V together.
  void RunHead() {
    const int64_t rows = shape_.rows(), keys = shape_.kv_len, e = shape_.element_bytes;
    source_k_ = stack_.Allocate(keys * shape_.qk_dim * e, Operand::kK);
    source_v_ = stack_.Allocate(keys * shape_.v_dim * e, Operand::kV);
    source_q_ = stack_.Allocate(rows * shape_.qk_dim * e, Operand::kQ);
    target_ = stack_.Allocate(rows * shape_.v_dim * e, Operand::kOut);
    Use(0);
    if (schedule_.packing == Packing::kHead) PackHead();
    const int64_t tiles = NumTiles(schedule_, shape_);
    for (int64_t first = 0; first < tiles; first += options_.threads) {
      const int64_t count = std::min(options_.threads, tiles - first);
      for (int64_t w = 0; w < count; ++w) Use(w), StartTile(TileQueries(schedule_, shape_, first + w));
      Walk(count);
      for (int64_t w = 0; w < count; ++w) Use(w), FinishTile();
    }
  }

 private:
  struct PackedBlock {
    int64_t k = 0, v = 0;
  };
  // A thread's buffers and where it is.
  struct Worker {
    int64_t q = 0, out = 0, max = 0, sum = 0, scores = 0;
    PackedBlock packed;  // Packing::kBlock
    int64_t packed_block = -1;
    Range tile;
  };

  void Allocate(Worker* w) {
    w->q = stack_.Allocate(tile_rows_ * q_row_, Operand::kQ);
    w->out = stack_.Allocate(tile_rows_ * o_row_, Operand::kOut);
    w->max = stack_.Allocate(tile_rows_ * options_.out_bytes, Operand::kStats);
    w->sum = stack_.Allocate(tile_rows_ * options_.out_bytes, Operand::kStats);
    w->scores = stack_.Allocate(score_rows_ * score_keys_ * options_.out_bytes, Operand::kScores);
    if (schedule_.packing == Packing::kHead) return;
    w->packed = {stack_.Allocate(block_ * q_row_, Operand::kK), stack_.Allocate(block_ * v_row_, Operand::kV)};
  }

  void Use(int64_t worker) {
    stack_.Use(worker);
    w_ = &workers_[static_cast<size_t>(worker)];
  }

  void StartTile(Range tile) {
    const int64_t e = shape_.element_bytes;
    w_->tile = tile;
    w_->packed_block = -1;
    stack_.Touch(source_q_ + tile.begin * shape_.qk_dim * e, tile.size() * shape_.qk_dim * e, false);
    stack_.Touch(w_->q, tile.size() * q_row_, true);
    stack_.Touch(w_->out, tile.size() * o_row_, true);
    stack_.Touch(w_->max, tile.size() * options_.out_bytes, true);
    stack_.Touch(w_->sum, tile.size() * options_.out_bytes, true);
  }

  void FinishTile() {
    const Range tile = w_->tile;
    const int64_t e = shape_.element_bytes;
    stack_.Touch(w_->out, tile.size() * o_row_, false);
    stack_.Touch(w_->sum, tile.size() * options_.out_bytes, false);
    stack_.Touch(target_ + tile.begin * shape_.v_dim * e, tile.size() * shape_.v_dim * e, true);
  }

  void Walk(int64_t count) {
    if (count == 1) {
      Use(0);
      return ForEachStep(
          schedule_, shape_, w_->tile, [this](const Step& step) { Visit(step); }, depth_);
    }
    std::vector<std::vector<Step>> steps(static_cast<size_t>(count));
    size_t longest = 0;
    for (size_t w = 0; w < steps.size(); ++w) {
      ForEachStep(
          schedule_, shape_, workers_[w].tile, [&](const Step& step) { steps[w].push_back(step); }, depth_);
      longest = std::max(longest, steps[w].size());
    }
    for (size_t i = 0; i < longest; ++i) {
      for (size_t w = 0; w < steps.size(); ++w) {
        if (i < steps[w].size()) Use(static_cast<int64_t>(w)), Visit(steps[w][i]);
      }
    }
  }

  // Where scores live: a strip against a block, unless a level keeps whole rows of them.
  void FindScoreBuffer(int expanded) {
    score_level_ = expanded - 1;
    whole_rows_ = false;
    if (depth_ == 0) score_level_ = io::SplitLevel(schedule_);
    for (int l = 0; l < expanded && !whole_rows_; ++l) {
      const Dataflow d = schedule_.levels[l].dataflow;
      if (d != Dataflow::kRowBuffered && d != Dataflow::kUnfused) continue;
      whole_rows_ = true;
      score_level_ = d == Dataflow::kUnfused ? l - 1 : l;
    }
    score_rows_ = score_level_ < 0 ? shape_.rows() : std::min(io::RowsOf(schedule_, score_level_), shape_.rows());
    score_keys_ = whole_rows_ ? shape_.kv_len : std::min(io::KeysOf(schedule_, score_level_), shape_.kv_len);
  }

  // As the executor does: K and V of a block side by side, block after block.
  void PackHead() {
    const int64_t e = shape_.element_bytes;
    packed_.clear();
    for (int64_t key = 0; key < shape_.kv_len; key += block_) {
      const int64_t keys = std::min(block_, shape_.kv_len - key);
      const PackedBlock p{stack_.Allocate(block_ * q_row_, Operand::kK, 1), stack_.Allocate(block_ * v_row_, Operand::kV, 1)};
      stack_.Touch(source_k_ + key * shape_.qk_dim * e, keys * shape_.qk_dim * e, false);
      stack_.Touch(p.k, keys * q_row_, true);
      stack_.Touch(source_v_ + key * shape_.v_dim * e, keys * shape_.v_dim * e, false);
      stack_.Touch(p.v, keys * v_row_, true);
      packed_.push_back(p);
    }
  }

  // Packing::kBlock: source to the worker's buffer, when another block begins.
  void PackBlock(int64_t key) {
    if (key / block_ == w_->packed_block) return;
    const PackedBlock& p = w_->packed;
    w_->packed_block = key / block_;
    const int64_t begin = w_->packed_block * block_, keys = std::min(block_, shape_.kv_len - begin),
                  e = shape_.element_bytes;
    stack_.Touch(source_k_ + begin * shape_.qk_dim * e, keys * shape_.qk_dim * e, false);
    stack_.Touch(p.k, keys * q_row_, true);
    stack_.Touch(source_v_ + begin * shape_.v_dim * e, keys * shape_.v_dim * e, false);
    stack_.Touch(p.v, keys * v_row_, true);
  }

  void Scores(const Step& step, bool write) {
    const int64_t o = options_.out_bytes;
    Range region{0, shape_.rows()};
    for (int l = 0; l <= score_level_; ++l) {
      const int64_t size = io::RowsOf(schedule_, l);
      region = io::TileAt(region.begin + (step.queries.begin - region.begin) / size * size, region.end, size);
    }
    const int64_t first_key = whole_rows_ ? 0 : step.keys.begin / score_keys_ * score_keys_;
    for (int64_t r = step.queries.begin; r < step.queries.end; ++r) {
      const int64_t at = (r - region.begin) * score_keys_ + step.keys.begin - first_key;
      stack_.Touch(w_->scores + at * o, step.keys.size() * o, write);
    }
  }

  void Visit(const Step& step) {
    const int64_t o = options_.out_bytes, r = step.queries.begin - w_->tile.begin, n = step.queries.size();
    const bool own = schedule_.packing == Packing::kBlock;
    if (own) PackBlock(step.keys.begin);
    const PackedBlock& p = own ? w_->packed : packed_[static_cast<size_t>(step.keys.begin / block_)];
    const int64_t key = step.keys.begin % block_;
    const bool fused = step.op == Op::kFused;
    if (fused || step.op == Op::kQK) {
      stack_.Touch(w_->q + r * q_row_, n * q_row_, false);
      stack_.Touch(p.k + key * q_row_, step.keys.size() * q_row_, false);
      Scores(step, true);
    }
    if (fused || step.op == Op::kSoftmax) {
      Scores(step, true);
      stack_.Touch(w_->max + r * o, n * o, true);
      stack_.Touch(w_->sum + r * o, n * o, true);
    }
    if (fused || step.op == Op::kPV) {
      Scores(step, false);
      stack_.Touch(p.v + key * v_row_, step.keys.size() * v_row_, false);
      stack_.Touch(w_->out + r * o_row_, n * o_row_, true);
    }
  }

  const Schedule& schedule_;
  const Shape& shape_;
  const CacheOptions& options_;
  io::CacheStack& stack_;
  int depth_ = 0;
  int score_level_ = 0;
  bool whole_rows_ = false;
  int64_t block_ = 1, score_rows_ = 0, score_keys_ = 0, tile_rows_ = 0;
  int64_t q_row_ = 0, v_row_ = 0, o_row_ = 0;
  int64_t source_q_ = 0, source_k_ = 0, source_v_ = 0, target_ = 0;
  std::vector<Worker> workers_;
  std::vector<PackedBlock> packed_;  // Packing::kHead: the head's
  Worker* w_ = nullptr;  // whose turn it is
};

}  // namespace

Result<std::vector<LineTraffic>> SimulateCaches(const Schedule& schedule, const Shape& shape, const Machine& machine,
                                                const CacheOptions& options) {
  if (Status s = io::CheckProblem(shape, {.packed_bytes = options.packed_bytes, .out_bytes = options.out_bytes});
      !s.ok())
    return s;
  if (shape.element_bytes < 1 || shape.element_bytes > 16) {
    return Status::Error(Code::kInvalidArgument, "simulate: elements of %lld bytes, expected 1 to 16",
                         static_cast<long long>(shape.element_bytes));
  }
  constexpr int64_t kMostThreads = 1024;
  if (options.threads < 1 || options.threads > kMostThreads) {
    return Status::Error(Code::kInvalidArgument, "simulate: %lld threads, expected 1 to 1024",
                         static_cast<long long>(options.threads));
  }
  for (const MemoryLevel& l : machine.levels) {
    if (Status s = io::CheckLevel(l); !s.ok()) return s;
    constexpr int64_t kMostLines = int64_t{1} << 28;  // 2 GiB of tags
    constexpr int64_t kMostWays = 1 << 16;            // an access looks at all of them
    const int64_t line = std::max<int64_t>(1, l.line_bytes);
    if (l.ways == 0 || (l.bytes / line <= kMostLines / options.threads && l.ways <= kMostWays)) continue;
    return Status::Error(Code::kInvalidArgument,
                         "simulate: level %.30s has more than 2^28 lines for all threads or 2^16 ways", l.name.c_str());
  }
  return NoThrow([&]() -> Result<std::vector<LineTraffic>> {
    io::CacheStack stack(machine, options.threads);
    if (stack.empty()) {
      return Status::Error(Code::kInvalidArgument, "simulate: machine \"%.60s\" has no cache with ways",
                           machine.name.c_str());
    }
    if (schedule.levels.empty()) return Status::Error(Code::kInvalidArgument, "simulate: the schedule has no level");
    Replay replay(schedule, shape, options, &stack);
    for (int64_t head = 0; head < options.kv_heads; ++head) replay.RunHead();
    return stack.traffic();
  });
}

}  // namespace attenio
