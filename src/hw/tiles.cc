// Tiles: capacity rules of the AttenIO paper (Sec. 3 and 5), FlashAttention-2, FLAT, the square-matrix bound and FuseMax.
#include "hw/tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/math.h"

namespace attenio {

const char* Name(HwDataflow dataflow) {
  constexpr const char* kNames[] = {"attenio", "flash2", "flat", "standard", "fusemax"};
  return kNames[static_cast<int>(dataflow)];
}

Result<HwDataflow> ParseHwDataflow(std::string_view name) {
  for (const HwDataflow d :
       {HwDataflow::kAttenio, HwDataflow::kFlash2, HwDataflow::kFlat, HwDataflow::kStandard, HwDataflow::kFusemax}) {
    if (name == Name(d)) return d;
  }
  return Status::Error(Code::kInvalidArgument,
                       "unknown dataflow '%.*s', expected attenio, flash2, flat, standard or fusemax",
                       static_cast<int>(std::min<size_t>(name.size(), 64)), name.data());
}

const char* Name(TileRule rule) {
  constexpr const char* kNames[] = {"own", "paper", "balanced", "flash2", "quarter"};
  return kNames[static_cast<int>(rule)];
}

namespace hw {
namespace {

// Lengths up to which every count of cycles and words stays far below 2^63.
constexpr int64_t kLongest = int64_t{1} << 32;

Status CheckShape(const Accelerator& hw, const Shape& s) {
  for (const auto& [what, value] :
       {std::pair{"batch", s.batch}, std::pair{"q_heads", s.q_heads}, std::pair{"kv_heads", s.kv_heads},
        std::pair{"q_len", s.q_len}, std::pair{"kv_len", s.kv_len}, std::pair{"qk_dim", s.qk_dim},
        std::pair{"v_dim", s.v_dim}}) {
    if (value < 1 || value > kLongest) {
      return Status::Error(Code::kInvalidArgument, "shape: %s is %lld, must be from 1 to 2^32", what,
                           static_cast<long long>(value));
    }
  }
  if (s.q_heads % s.kv_heads != 0) {
    return Status::Error(Code::kInvalidArgument, "shape: %lld query heads are not a multiple of %lld KV heads",
                         static_cast<long long>(s.q_heads), static_cast<long long>(s.kv_heads));
  }
  // The largest count is that of multiply-adds, 2 per pair and dim.
  const double work = static_cast<double>(s.batch) * static_cast<double>(s.q_heads) * static_cast<double>(s.q_len) *
                      static_cast<double>(s.kv_len) * static_cast<double>(s.qk_dim + s.v_dim);
  if (work > 0x1p61) {
    return Status::Error(Code::kInvalidArgument, "shape: %g products are more than the model counts (2^61)", work);
  }
  if (s.element_bytes != hw.element_bytes) {
    return Status::Error(Code::kInvalidArgument, "shape: elements of %lld bytes on hardware for %lld",
                         static_cast<long long>(s.element_bytes), static_cast<long long>(hw.element_bytes));
  }
  return {};
}

Status TooSmall(const Accelerator& hw, const char* dataflow, int64_t words) {
  return Status::Error(Code::kInvalidArgument,
                       "accelerator: a cache of %lld bytes is too small for one row with %s, which needs %lld bytes",
                       static_cast<long long>(hw.cache_bytes), dataflow,
                       static_cast<long long>(words * hw.element_bytes));
}

LevelTile MakeTile(Dataflow dataflow, const Shape& shape, int64_t queries, int64_t keys) {
  return {"cache", dataflow, std::clamp<int64_t>(queries, 1, shape.rows()), std::clamp<int64_t>(keys, 1, shape.kv_len)};
}

Result<LevelTile> QueryTile(const Accelerator& hw, const Shape& shape, TileRule rule) {
  const int64_t m = hw.cache_words();
  const int64_t d = std::max(shape.qk_dim, shape.v_dim);
  const int64_t quarter = CeilDiv(m, 4 * d);
  if (rule == TileRule::kFlash2) {
    if (m < 4 * d) return TooSmall(hw, "flash2", 4 * d);
    return MakeTile(Dataflow::kQueryResident, shape, std::min(quarter, d), quarter);
  }
  if (rule == TileRule::kQuarter) {
    if (m < 4 * d) return TooSmall(hw, "flash2", 4 * d);
    return MakeTile(Dataflow::kQueryResident, shape, quarter, quarter);
  }
  // a (dk + dv) + b d + a b + 3 a <= M with b = 1
  const int64_t per_row = shape.qk_dim + shape.v_dim + 4;
  const int64_t largest = (m - d) / per_row;
  if (m - d < per_row) return TooSmall(hw, "attenio", per_row + d);
  const int64_t tiles = CeilDiv(shape.rows(), largest);
  return MakeTile(Dataflow::kQueryResident, shape, rule == TileRule::kBalanced ? CeilDiv(shape.rows(), tiles) : largest,
                  1);
}

// Words a head that FLAT moves with `rows` rows a tile, scores through memory or not.
double FlatWords(const Shape& s, int64_t rows, bool spills) {
  const double n = static_cast<double>(s.rows()), m = static_cast<double>(s.kv_len);
  const double dims = static_cast<double>(s.qk_dim + s.v_dim);
  return n * dims + static_cast<double>(CeilDiv(s.rows(), rows)) * m * dims + (spills ? 4 * n * m : 0);
}

Result<LevelTile> FlatTile(const Accelerator& hw, const Shape& shape) {
  const int64_t dims = shape.qk_dim + shape.v_dim;
  if (hw.cache_words() < dims) return TooSmall(hw, "flat", dims);
  const int64_t fits = hw.cache_words() / (shape.kv_len + dims);
  const int64_t spilled = std::min({hw.spill_rows, hw.cache_words() / dims, shape.rows()});
  const bool spills = fits == 0 || (hw.spill_when_cheaper && FlatWords(shape, spilled, true) <
                                                                 FlatWords(shape, std::min(fits, shape.rows()), false));
  return MakeTile(Dataflow::kRowBuffered, shape, spills ? spilled : fits, shape.kv_len);
}

// The square-matrix bound: a tile of sqrt(M) x sqrt(M) scores.
Result<LevelTile> StandardTile(const Accelerator& hw, const Shape& shape) {
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(hw.cache_words())));
  if (hw.cache_words() < shape.qk_dim + shape.v_dim) return TooSmall(hw, "standard", shape.qk_dim + shape.v_dim);
  return MakeTile(Dataflow::kUnfused, shape, side, side);
}

// FuseMax: blocks of one array height of Q and O rows, as many as divide the sequence evenly; one block of K and of V.
Result<LevelTile> FusemaxTile(const Accelerator& hw, const Shape& shape) {
  const int64_t dims = shape.qk_dim + shape.v_dim;
  const int64_t block = hw.mac_lines * (dims + 2);  // Q, O and two statistics a row
  const int64_t fits = (hw.cache_words() - hw.macs_per_line * dims) / block;
  if (fits < 1) return TooSmall(hw, "fusemax", block + hw.macs_per_line * dims);
  const int64_t blocks = std::max<int64_t>(1, shape.rows() / hw.mac_lines);
  int64_t take = std::min(fits, blocks);
  while (blocks % take != 0) --take;
  return MakeTile(Dataflow::kQueryResident, shape, take * hw.mac_lines, hw.macs_per_line);
}

Result<LevelTile> ChooseTile(const Accelerator& hw, const Shape& shape, const ProjectOptions& options) {
  switch (options.dataflow) {
    case HwDataflow::kAttenio:
      return QueryTile(hw, shape, options.tile == TileRule::kOwn ? TileRule::kPaper : options.tile);
    case HwDataflow::kFlash2:
      return QueryTile(hw, shape, options.tile == TileRule::kOwn ? TileRule::kFlash2 : options.tile);
    case HwDataflow::kFlat:
      return FlatTile(hw, shape);
    case HwDataflow::kStandard:
      return StandardTile(hw, shape);
    case HwDataflow::kFusemax:
      return FusemaxTile(hw, shape);
  }
  return Status::Error(Code::kInvalidArgument, "unknown dataflow");
}

Dataflow KindOf(HwDataflow dataflow) {
  if (dataflow == HwDataflow::kFlat) return Dataflow::kRowBuffered;
  return dataflow == HwDataflow::kStandard ? Dataflow::kUnfused : Dataflow::kQueryResident;
}

Status CheckGivenSchedule(const Run& run) {
  const Schedule& schedule = run.schedule;
  const Shape& s = run.shape;
  if (schedule.levels.size() != 1 || run.tile().dataflow != KindOf(run.dataflow) || run.tile().queries < 1 ||
      run.tile().keys < 1) {
    return Status::Error(Code::kInvalidArgument, "schedule: %s takes one level, %s", Name(run.dataflow),
                         Name(KindOf(run.dataflow)));
  }
  // Q and O of the tile stay on chip whatever else does; scores of a tile may be accumulated in the array.
  if (run.tile().dataflow == Dataflow::kQueryResident &&
      std::min(run.tile().queries, s.rows()) > run.hw.cache_words() / (s.qk_dim + s.v_dim)) {
    return Status::Error(Code::kInvalidArgument, "schedule: %lld rows of Q and O do not fit into %lld bytes",
                         static_cast<long long>(run.tile().queries), static_cast<long long>(run.hw.cache_bytes));
  }
  return {};
}

}  // namespace

Result<Run> MakeRun(const Accelerator& accelerator, const Shape& shape, const ProjectOptions& options) {
  if (Status s = Validate(accelerator); !s.ok()) return s;
  if (Status s = CheckShape(accelerator, shape); !s.ok()) return s;
  Run run;
  run.hw = accelerator;
  run.shape = shape;
  run.dataflow = options.dataflow;
  run.overlap = options.overlap.value_or(
      options.dataflow == HwDataflow::kAttenio ? HwOverlap{} : HwOverlap{false, false, false, false});
  if (options.schedule) {
    run.schedule = *options.schedule;
    if (Status s = CheckGivenSchedule(run); !s.ok()) return s;
  } else {
    Result<LevelTile> tile = ChooseTile(accelerator, shape, options);
    if (!tile.ok()) return tile.status();
    run.schedule.levels = {*tile};
  }
  const int64_t row_bytes = std::max(shape.qk_dim, shape.v_dim) * accelerator.element_bytes;
  if (options.dataflow == HwDataflow::kAttenio && accelerator.kv_buffer_bytes > 0 &&
      row_bytes > accelerator.kv_buffer_bytes) {
    return Status::Error(Code::kInvalidArgument,
                         "accelerator: a KV buffer of %lld bytes cannot hold one row of %lld bytes",
                         static_cast<long long>(accelerator.kv_buffer_bytes), static_cast<long long>(row_bytes));
  }
  run.spills = options.dataflow == HwDataflow::kFlat &&
               run.tile().queries > accelerator.cache_words() / (shape.kv_len + shape.qk_dim + shape.v_dim);
  return run;
}

}  // namespace hw

Result<Schedule> HwSchedule(const Accelerator& accelerator, const Shape& shape, const ProjectOptions& options) {
  Result<hw::Run> run = hw::MakeRun(accelerator, shape, options);
  if (!run.ok()) return run.status();
  return run->schedule;
}

}  // namespace attenio
