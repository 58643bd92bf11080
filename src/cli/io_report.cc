#include "cli/io_report.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "cli/command.h"
#include "io/capacity.h"
#include "io/cost.h"

namespace attenio::cli {
namespace {

constexpr Dataflow kDataflows[] = {Dataflow::kQueryResident, Dataflow::kKeyResident, Dataflow::kScoreResident,
                                   Dataflow::kRowBuffered, Dataflow::kUnfused};

double Real(int64_t x) { return static_cast<double>(x); }

// A bound in words of the narrower element, so that it holds for bytes.
double BoundBytes(const IoProblem& p, int64_t fast_bytes, BoundKind kind) {
  const double word = Real(std::min(p.options.packed_bytes, p.options.out_bytes));
  return p.heads() * word * LowerBound(p.shape, Real(fast_bytes) / word, kind);
}

BoundKind KindOf(Dataflow d) {
  switch (d) {
    case Dataflow::kQueryResident:
    case Dataflow::kKeyResident:
      return BoundKind::kPairsResident;
    case Dataflow::kScoreResident:
    case Dataflow::kRowBuffered:
      return BoundKind::kScoreOnce;
    case Dataflow::kUnfused:
      return BoundKind::kCompulsory;
  }
  return BoundKind::kCompulsory;
}

// What the executor's buffers add per head to Predict, whose q stands for the fills of packed Q and whose first out for the
// write-backs of O: source Q read, O and the target allocated, packed Q and the target written back, K and V packed ahead.
struct Buffers {
  double fills = 0, writebacks = 0;
};

Buffers ExecutorBuffers(const Schedule& schedule, const IoProblem& p) {
  const Shape& s = p.shape;
  const double e = Real(s.element_bytes), packed = Real(p.options.packed_bytes), o = Real(p.options.out_bytes);
  const double q = Real(s.rows()) * Real(s.qk_dim), out = Real(s.rows()) * Real(s.v_dim);
  Buffers b{q * e + out * (o + e), q * packed + out * e};
  if (schedule.packing == Packing::kHead) {
    const double keys = Real(s.kv_len) * (Real(s.qk_dim) + Real(s.v_dim));
    b.fills += keys * (e + packed);
    b.writebacks += keys * packed;
  }
  return b;
}

}  // namespace

double PredictedCacheFills(const Schedule& schedule, const IoProblem& p) {
  Traffic loads = Predict(schedule, p.shape, 0, RowStats::kDropped);
  loads.out = (loads.out - Real(p.shape.rows()) * Real(p.shape.v_dim)) / 2;  // every store but the last is read again
  loads.scores /= 2;
  loads.stats /= 2;
  return p.heads() * (Bytes(loads, p.options) + ExecutorBuffers(schedule, p).fills);
}

double PredictedCacheBytes(const Schedule& schedule, const IoProblem& p) {
  const Buffers b = ExecutorBuffers(schedule, p);
  return p.heads() * (Bytes(Predict(schedule, p.shape, 0, RowStats::kDropped), p.options) + b.fills + b.writebacks);
}

double PredictedSharedBytes(const Schedule& schedule, const MemoryLevel& level, const IoProblem& p) {
  const Shape& s = p.shape;
  const double e = Real(s.element_bytes), packed = Real(p.options.packed_bytes),
               out = Real(s.rows()) * Real(s.v_dim) * e;
  const double keys = Real(s.kv_len) * (Real(s.qk_dim) + Real(s.v_dim));
  const bool head = schedule.packing == Packing::kHead;
  // Q read; the target allocated and written back; K and V read, and their packed copy allocated.
  double bytes = Real(s.rows()) * Real(s.qk_dim) * e + 2 * out + keys * e + (head ? keys * packed : 0);
  const int64_t threads = std::min(p.options.threads, level.sharers);
  const double usable = Real(io::UsableBytes(level)) * Real(threads), swept = keys * (head ? packed : e);
  if (swept > usable) {  // every round of tiles sweeps K and V, and the copy goes out once
    const int64_t rounds = CeilDiv(NumTiles(schedule, s), threads);
    bytes += head ? Real(rounds + 1) * swept : Real(rounds - 1) * swept;
  }
  return p.heads() * bytes;
}

std::vector<IoRow> ScheduleRows(const Schedule& schedule, const IoProblem& p, double solve_us, int64_t simulate_heads) {
  std::vector<IoRow> rows;
  std::vector<LineTraffic> lines;
  if (simulate_heads > 0) {
    CacheOptions options;
    options.packed_bytes = p.options.packed_bytes;
    options.out_bytes = p.options.out_bytes;
    options.kv_heads = simulate_heads;
    options.threads = p.options.threads;
    const auto traffic = SimulateCaches(schedule, p.shape, p.machine, options);
    if (traffic.ok()) lines = *traffic;
  }
  const auto simulated = [&](const std::string& name) -> std::optional<double> {
    for (const LineTraffic& t : lines) {
      if (t.level == name) return p.heads() / Real(simulate_heads) * Real(t.total_bytes());
    }
    return {};
  };
  for (const MemoryLevel& level :
       p.machine.levels) {  // outside the schedule's levels and shared: fed by the order of the tiles
    if (level.ways <= 0 || level.name != "LLC") continue;
    IoRow row;
    row.level = level.name;
    row.dataflow = fmt::format("swept by {}", std::min(p.options.threads, level.sharers));
    row.schedule = schedule.ToString();
    row.fast_bytes = io::UsableBytes(level) * std::min(p.options.threads, level.sharers);
    row.predicted = PredictedSharedBytes(schedule, level, p);
    row.simulated = simulated(level.name);
    row.bound_kind = Name(BoundKind::kScoreOnce);
    row.bound = BoundBytes(p, row.fast_bytes, BoundKind::kScoreOnce);
    rows.push_back(row);
  }
  for (size_t l = 0; l < schedule.levels.size(); ++l) {
    const LevelTile& tile = schedule.levels[l];
    const MemoryLevel* level = p.machine.Find(tile.level);
    IoRow row;
    row.level = tile.level;
    row.dataflow = Name(tile.dataflow);
    row.schedule = schedule.ToString();
    row.fast_bytes = level == nullptr ? 0 : level->bytes / std::max<int64_t>(1, level->sharers);
    const bool cache = level != nullptr && level->ways > 0;
    const RowStats stats = cache ? RowStats::kWrittenBack : RowStats::kDropped;
    row.predicted = l == 0 && cache
                        ? PredictedCacheBytes(schedule, p)
                        : p.heads() * Bytes(Predict(schedule, p.shape, static_cast<int>(l), stats), p.options);
    row.simulated = simulated(tile.level);
    if (!cache && simulate_heads > 0) {
      row.simulated = p.heads() * Bytes(SimulateScratchpad(schedule, p.shape, static_cast<int>(l), stats), p.options);
    }
    row.bound_kind = Name(BoundKind::kScoreOnce);
    row.bound = BoundBytes(p, row.fast_bytes, BoundKind::kScoreOnce);
    row.solve_us = solve_us;
    rows.push_back(row);
  }
  return rows;
}

std::vector<IoRow> DataflowRows(const std::vector<std::string>& names, const MemoryLevel& level, const IoProblem& p,
                                bool simulate) {
  MemoryLevel managed = level;  // under explicit management, where Predict is exact
  managed.bytes = level.bytes / std::max<int64_t>(1, level.sharers);
  managed.ways = 0;
  managed.sharers = 1;
  const auto wanted = [&](const std::string& name) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& n) { return n == "all" || n == name; });
  };
  std::vector<std::string> known{"all", "flash-attention-1", "flash-attention-2"};
  std::vector<IoRow> rows;
  const auto add = [&](const std::string& name, const LevelTile& tile, double solve_us) {
    Schedule s;
    s.levels = {tile};
    IoRow row;
    row.level = level.name;
    row.dataflow = name;
    row.schedule = s.ToString();
    row.fast_bytes = managed.bytes;
    row.predicted = p.heads() * Bytes(Predict(s, p.shape, 0, RowStats::kDropped), p.options);
    if (simulate) row.simulated = p.heads() * Bytes(SimulateScratchpad(s, p.shape, 0, RowStats::kDropped), p.options);
    row.bound_kind = Name(KindOf(tile.dataflow));
    row.bound = BoundBytes(p, managed.bytes, KindOf(tile.dataflow));
    row.solve_us = solve_us;
    rows.push_back(row);
  };
  for (const Dataflow d : kDataflows) {
    known.push_back(Name(d));
    if (!wanted(Name(d))) continue;
    const double start = Seconds();
    const Result<LevelTile> tile = SolveLevel(p.shape, managed, p.options, d);
    const double us = 1e6 * (Seconds() - start);
    if (tile.ok()) add(Name(d), *tile, us);
  }
  const int64_t words = managed.bytes / std::max<int64_t>(1, p.options.packed_bytes);
  const int64_t d = std::max<int64_t>(1, std::max(p.shape.qk_dim, p.shape.v_dim));
  for (const bool first : {true, false}) {
    LevelTile tile = first ? io::Flash1Tile(words, d) : io::Flash2Tile(words, d);
    tile.level = level.name;
    const std::string name = first ? "flash-attention-1" : "flash-attention-2";
    if (wanted(name)) add(name, tile, 0);
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw InputError(
          fmt::format("--dataflow {}: unknown, expected all or some of query-resident, key-resident, score-resident, "
                      "row-buffered, unfused, flash-attention-1, flash-attention-2",
                      name));
    }
  }
  return rows;
}

}  // namespace attenio::cli
