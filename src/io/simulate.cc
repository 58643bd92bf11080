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
    block_ = io::KeysOf(schedule, 0);
    FindScoreBuffer(depth_ == 0 ? levels : depth_);
    tile_rows_ = NumTiles(schedule, shape) > 0 ? TileQueries(schedule, shape, 0).size() : 0;
    q_row_ = shape.qk_dim * options.packed_bytes;
    v_row_ = shape.v_dim * options.packed_bytes;
    o_row_ = shape.v_dim * options.out_bytes;
    worker_q_ = stack->Allocate(tile_rows_ * q_row_, Operand::kQ);
    worker_out_ = stack->Allocate(tile_rows_ * o_row_, Operand::kOut);
    max_ = stack->Allocate(tile_rows_ * options.out_bytes, Operand::kStats);
    sum_ = stack->Allocate(tile_rows_ * options.out_bytes, Operand::kStats);
    scores_ = stack->Allocate(score_rows_ * score_keys_ * options.out_bytes, Operand::kScores);
    if (schedule.packing == Packing::kBlock) {
      packed_k_ = stack->Allocate(block_ * q_row_, Operand::kK);
      packed_v_ = stack->Allocate(block_ * v_row_, Operand::kV);
    }
  }

  void RunHead() {
    const int64_t rows = shape_.rows(), keys = shape_.kv_len, e = shape_.element_bytes;
    source_k_ = stack_.Allocate(keys * shape_.qk_dim * e, Operand::kK);
    source_v_ = stack_.Allocate(keys * shape_.v_dim * e, Operand::kV);
    const int64_t source_q = stack_.Allocate(rows * shape_.qk_dim * e, Operand::kQ);
    const int64_t target = stack_.Allocate(rows * shape_.v_dim * e, Operand::kOut);
    if (schedule_.packing == Packing::kHead) PackHead();
    packed_block_ = -1;
    for (int64_t tile = 0; tile < NumTiles(schedule_, shape_); ++tile) {
      tile_ = TileQueries(schedule_, shape_, tile);
      stack_.Touch(source_q + tile_.begin * shape_.qk_dim * e, tile_.size() * shape_.qk_dim * e, false);
      stack_.Touch(worker_q_, tile_.size() * q_row_, true);
      stack_.Touch(worker_out_, tile_.size() * o_row_, true);
      stack_.Touch(max_, tile_.size() * options_.out_bytes, true);
      stack_.Touch(sum_, tile_.size() * options_.out_bytes, true);
      ForEachStep(schedule_, shape_, tile_, [this](const Step& step) { Visit(step); }, depth_);
      stack_.Touch(worker_out_, tile_.size() * o_row_, false);
      stack_.Touch(sum_, tile_.size() * options_.out_bytes, false);
      stack_.Touch(target + tile_.begin * shape_.v_dim * e, tile_.size() * shape_.v_dim * e, true);
    }
  }

 private:
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

  void PackHead() {
    const int64_t e = shape_.element_bytes;
    packed_k_ = stack_.Allocate(RoundUp(shape_.kv_len, block_) * (q_row_ + v_row_), Operand::kK);
    packed_v_ = stack_.Allocate(RoundUp(shape_.kv_len, block_) * v_row_, Operand::kV);
    for (int64_t key = 0; key < shape_.kv_len; key += block_) {
      const int64_t keys = std::min(block_, shape_.kv_len - key);
      stack_.Touch(source_k_ + key * shape_.qk_dim * e, keys * shape_.qk_dim * e, false);
      stack_.Touch(packed_k_ + key * q_row_, keys * q_row_, true);
      stack_.Touch(source_v_ + key * shape_.v_dim * e, keys * shape_.v_dim * e, false);
      stack_.Touch(packed_v_ + key * v_row_, keys * v_row_, true);
    }
  }

  // Packing::kBlock: source to the worker's buffer, when another block begins.
  void PackBlock(int64_t key) {
    if (key / block_ == packed_block_) return;
    packed_block_ = key / block_;
    const int64_t begin = packed_block_ * block_, keys = std::min(block_, shape_.kv_len - begin), e = shape_.element_bytes;
    stack_.Touch(source_k_ + begin * shape_.qk_dim * e, keys * shape_.qk_dim * e, false);
    stack_.Touch(packed_k_, keys * q_row_, true);
    stack_.Touch(source_v_ + begin * shape_.v_dim * e, keys * shape_.v_dim * e, false);
    stack_.Touch(packed_v_, keys * v_row_, true);
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
      stack_.Touch(scores_ + at * o, step.keys.size() * o, write);
    }
  }

  void Visit(const Step& step) {
    const int64_t o = options_.out_bytes, r = step.queries.begin - tile_.begin, n = step.queries.size();
    int64_t key = step.keys.begin;
    if (schedule_.packing == Packing::kBlock) {
      PackBlock(key);
      key -= packed_block_ * block_;
    }
    const bool fused = step.op == Op::kFused;
    if (fused || step.op == Op::kQK) {
      stack_.Touch(worker_q_ + r * q_row_, n * q_row_, false);
      stack_.Touch(packed_k_ + key * q_row_, step.keys.size() * q_row_, false);
      Scores(step, true);
    }
    if (fused || step.op == Op::kSoftmax) {
      Scores(step, true);
      stack_.Touch(max_ + r * o, n * o, true);
      stack_.Touch(sum_ + r * o, n * o, true);
    }
    if (fused || step.op == Op::kPV) {
      Scores(step, false);
      stack_.Touch(packed_v_ + key * v_row_, step.keys.size() * v_row_, false);
      stack_.Touch(worker_out_ + r * o_row_, n * o_row_, true);
    }
  }

  const Schedule& schedule_;
  const Shape& shape_;
  const CacheOptions& options_;
  io::CacheStack& stack_;
  int depth_ = 0;
  int score_level_ = 0;
  bool whole_rows_ = false;
  int64_t block_ = 1, score_rows_ = 0, score_keys_ = 0, tile_rows_ = 0, packed_block_ = -1;
  int64_t q_row_ = 0, v_row_ = 0, o_row_ = 0;
  int64_t worker_q_ = 0, worker_out_ = 0, max_ = 0, sum_ = 0, scores_ = 0;
  int64_t packed_k_ = 0, packed_v_ = 0, source_k_ = 0, source_v_ = 0;
  Range tile_;
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
  for (const MemoryLevel& l : machine.levels) {
    if (Status s = io::CheckLevel(l); !s.ok()) return s;
    constexpr int64_t kMostLines = int64_t{1} << 28;  // 2 GiB of tags
    constexpr int64_t kMostWays = 1 << 16;            // an access looks at all of them
    const int64_t line = std::max<int64_t>(1, l.line_bytes);
    if (l.ways == 0 || (l.bytes / line <= kMostLines && l.ways <= kMostWays)) continue;
    return Status::Error(Code::kInvalidArgument, "simulate: level %.30s has more than 2^28 lines or 2^16 ways",
                         l.name.c_str());
  }
  return NoThrow([&]() -> Result<std::vector<LineTraffic>> {
    io::CacheStack stack(machine);
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
