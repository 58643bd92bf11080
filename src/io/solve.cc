// From a problem and a memory hierarchy to the schedule that the executor runs.
#include <algorithm>
#include <cmath>

#include "attenio/io.h"
#include "base/math.h"
#include "io/capacity.h"
#include "io/check.h"

namespace attenio {
namespace {

using io::Dims;
using io::Residency;
using io::UsableBytes;
using io::Wide;

// Longer key blocks than this change the traffic by less than 1 % on any known machine and make rows wait for their
// rescale.
constexpr int64_t kMaxKeyBlock = 1024;
// Cost of a byte across the outer boundary against one across the inner boundary, where the machine is not measured:
// memory against L2 bandwidth of one core is 3 to 6 on current servers.
constexpr double kOuterCost = 4;
// A tile's K/V sweep costs as much time as this many of its rows: element bytes x flop rate / (2 x bandwidth), about 4
// x 110 GFLOP/s / (2 x 10 GB/s) for f32. Used to weigh I/O against idle threads.
constexpr double kSweepRows = 24;
// More tiles than this per call are never worth trying for balance.
constexpr int64_t kMaxBalanceTiles = 1024;

// The two boundaries that are solved: `outer` holds the query tile, `inner` (may be missing) the strip.
struct Boundaries {
  const MemoryLevel* outer = nullptr;
  const MemoryLevel* inner = nullptr;
  const MemoryLevel* registers = nullptr;
  const MemoryLevel* beyond = nullptr;  // what feeds `outer`
};

struct Tiles {
  Dataflow outer_dataflow = Dataflow::kQueryResident;
  Dataflow inner_dataflow = Dataflow::kScoreResident;
  int64_t rows = 0;  // most rows of the outer tile, a multiple of the quantum
  int64_t keys = 0;
  int64_t strip = 0;  // most rows of the inner strip
};

Status Check(const Shape& shape, const Machine& machine, const SolveOptions& options) {
  if (Status s = io::CheckProblem(shape, options); !s.ok()) return s;
  for (const MemoryLevel& l : machine.levels) {
    if (Status s = io::CheckLevel(l); !s.ok()) return s;
  }
  return {};
}

// The outer level is L2, or the outermost one of finite size; the inner one is what lies inside it, without the
// registers.
Boundaries FindBoundaries(const Machine& machine) {
  Boundaries b;
  const auto finite = [](const MemoryLevel& l) { return l.bytes > 0 && l.name != "memory"; };
  b.registers = machine.Find("reg");
  b.outer = machine.Find("L2");
  if (b.outer != nullptr && !finite(*b.outer)) b.outer = nullptr;
  for (const MemoryLevel& l : machine.levels) {
    if (machine.Find("L2") == nullptr && finite(l) && &l != b.registers) b.outer = &l;
  }
  bool outside = false;
  for (const MemoryLevel& l : machine.levels) {
    if (outside && b.beyond == nullptr) b.beyond = &l;
    outside |= &l == b.outer;
    if (!outside && finite(l) && &l != b.registers) b.inner = &l;
  }
  return b;
}

class Solver {
 public:
  Solver(const Shape& shape, const Boundaries& boundaries, const SolveOptions& options)
      : boundaries_(boundaries), options_(options) {
    dims_ = {shape.qk_dim, shape.v_dim, options.packed_bytes, options.out_bytes};
    outer_bytes_ = UsableBytes(*boundaries.outer);
    if (boundaries.inner != nullptr) inner_bytes_ = UsableBytes(*boundaries.inner);
  }

  // Tries every key block and keeps the cheapest. rows = 0 when nothing fits.
  Tiles Best() const {
    Tiles best;
    double best_cost = INFINITY;
    const int64_t quantum = options_.quantum.keys;
    // Steps of a sixteenth at least: the cost is flat around its minimum, and planning stays short for a quantum of 1.
    for (int64_t keys = quantum; keys <= std::max(kMaxKeyBlock, quantum); keys += RoundUp(std::max<int64_t>(1, keys / 16), quantum)) {
      Tiles t;
      if (!Fit(keys, &t)) break;  // larger blocks fit less
      const double cost = Cost(t);
      if (cost < best_cost) {
        best_cost = cost;
        best = t;
      }
      // Without an inner level there is nothing that a longer block would spare.
      if (boundaries_.inner == nullptr && t.outer_dataflow == Dataflow::kQueryResident) break;
    }
    return best;
  }

  // The largest tiles for a key block; false when not one quantum of rows fits.
  bool Fit(int64_t keys, Tiles* t) const {
    t->keys = keys;
    t->strip = FitStrip(keys, &t->inner_dataflow);
    Residency outer = MakeResidency(*boundaries_.outer);
    outer.strip_rows = t->strip;
    t->rows = Multiple(outer.MaxRows(Dataflow::kQueryResident, outer_bytes_, keys));
    t->outer_dataflow = Dataflow::kQueryResident;
    if (t->rows == 0) {  // rows too wide to keep: their scores stay instead
      t->rows = Multiple(outer.MaxRows(Dataflow::kScoreResident, outer_bytes_, keys));
      t->outer_dataflow = Dataflow::kScoreResident;
    }
    t->strip = std::min(t->strip, t->rows);
    return t->rows > 0;
  }

 private:
  int64_t Multiple(int64_t rows) const { return RoundDown(std::min(rows, INT64_MAX / 2), options_.quantum.rows); }

  Residency MakeResidency(const MemoryLevel& level) const { return {level.ways > 0, dims_, 0, 0}; }

  // Rows of a strip against `keys` keys whose Q and O, or else whose scores, stay in the inner level; at least one
  // quantum.
  int64_t FitStrip(int64_t keys, Dataflow* dataflow) const {
    *dataflow = Dataflow::kScoreResident;
    if (boundaries_.inner == nullptr) return options_.quantum.rows;
    Residency inner = MakeResidency(*boundaries_.inner);
    const int64_t by_scores = Multiple(inner.MaxRows(Dataflow::kScoreResident, inner_bytes_, keys));
    // K and V pass a kernel's quantum of keys at a time.
    inner.strip_rows = 0;
    int64_t by_rows = 0;
    const Wide fixed = inner.Bytes(Dataflow::kQueryResident, 0, options_.quantum.keys);
    const Wide per_row = inner.Bytes(Dataflow::kQueryResident, 1, options_.quantum.keys) - fixed + Wide{keys} * dims_.accumulator;
    if (inner_bytes_ > fixed) by_rows = Multiple(static_cast<int64_t>((inner_bytes_ - fixed) / per_row));
    if (by_rows > by_scores) *dataflow = Dataflow::kQueryResident;
    return std::max({by_scores, by_rows, options_.quantum.rows});
  }

  // Bytes per (row, key) pair, weighted: K/V over the outer tile, and K/V, Q and O over the strip (theory: words across
  // a boundary are 2 d / Br_l + (3 d + 4) / C_{l+1} per pair).
  double Cost(const Tiles& t) const {
    const double kv = static_cast<double>((dims_.qk + dims_.v) * dims_.element);
    const double q = static_cast<double>(dims_.qk * dims_.element);
    const double o = 2.0 * static_cast<double>((dims_.v + 2) * dims_.accumulator);
    double outer = kv / static_cast<double>(t.rows);
    if (t.outer_dataflow == Dataflow::kScoreResident) outer += (q + o) / static_cast<double>(t.keys);
    const double inner = kv / static_cast<double>(t.strip) + (q + o) / static_cast<double>(t.keys);
    return OuterCost() * outer + inner;
  }

  double OuterCost() const {
    const MemoryLevel* beyond = boundaries_.beyond;
    if (beyond == nullptr || beyond->bytes_per_second <= 0 || boundaries_.outer->bytes_per_second <= 0)
      return kOuterCost;
    return boundaries_.outer->bytes_per_second / beyond->bytes_per_second;
  }

  const Boundaries& boundaries_;
  const SolveOptions& options_;
  Dims dims_;
  int64_t outer_bytes_ = 0;
  int64_t inner_bytes_ = 0;
};

// Rows of one tile when the rows of a KV head are cut into `tiles` equal ones.
int64_t BalancedRows(int64_t rows, int64_t tiles, int64_t quantum) {
  return RoundUp(CeilDiv(std::max<int64_t>(rows, 1), tiles), quantum);
}

// The fewest tiles that fit, balanced; more of them when threads would be idle otherwise.
int64_t ChooseRows(const Shape& shape, int64_t max_rows, const SolveOptions& options) {
  const int64_t rows = std::max<int64_t>(shape.rows(), 1);
  const int64_t quantum = options.quantum.rows;
  const int64_t fewest = CeilDiv(rows, max_rows);
  int64_t best = BalancedRows(rows, fewest, quantum);
  if (options.threads == 1) return best;
  const double heads = static_cast<double>(std::max<int64_t>(1, shape.batch)) * std::max<int64_t>(1, shape.kv_heads);
  const double threads = static_cast<double>(options.threads);
  const int64_t most = std::min({CeilDiv(rows, quantum), fewest + 4 * std::min<int64_t>(options.threads, kMaxBalanceTiles), fewest + kMaxBalanceTiles});
  double best_time = INFINITY;
  for (int64_t tiles = fewest; tiles <= most; ++tiles) {
    const int64_t size = BalancedRows(rows, tiles, quantum);
    const double units = heads * static_cast<double>(CeilDiv(rows, size));
    // Tiles of a band differ in cost by up to a factor 2; handed out largest first, the last one overlaps half.
    const double rounds = shape.banded() ? std::max(1.0, units / threads + 0.5) : std::ceil(units / threads);
    const double time = rounds * (static_cast<double>(size) + kSweepRows);
    if (time < 0.98 * best_time) {  // fewer tiles move less: take more only for a real gain
      best_time = time;
      best = size;
    }
  }
  return best;
}

// The strip that cuts a tile into equal parts of at most `most` rows.
int64_t BalancedStrip(int64_t tile, int64_t most, int64_t quantum) {
  if (tile <= most) return RoundUp(tile, quantum);
  return BalancedRows(tile, CeilDiv(tile, most), quantum);
}

// `rows`: of the problem; a given tile may be much larger, up to 2^63 - 1.
void AddInner(const Boundaries& b, const Tiles& t, const SolveOptions& options, int64_t rows, Schedule* s) {
  const int64_t tile = std::min(s->levels.back().queries, RoundUp(std::max<int64_t>(rows, 1), options.quantum.rows));
  const int64_t keys = s->levels.back().keys;
  const auto has = [s](const std::string& name) {
    return std::any_of(s->levels.begin(), s->levels.end(), [&](const LevelTile& l) { return l.level == name; });
  };
  if (b.inner != nullptr && !has(b.inner->name)) {
    s->levels.push_back({b.inner->name, t.inner_dataflow, BalancedStrip(tile, t.strip, options.quantum.rows), keys});
  }
  if (b.registers != nullptr && !has(b.registers->name)) {
    s->levels.push_back({b.registers->name, Dataflow::kScoreResident, options.quantum.rows, options.quantum.keys});
  }
}

Status NothingFits(const Shape& shape, const MemoryLevel& level, const Quantum& q) {
  return Status::Error(Code::kInvalidArgument,
                       "solve: level %.30s (%lld bytes, %lld usable by one thread) does not hold %lld x %lld scores of "
                       "a %lld/%lld-dim problem",
                       level.name.c_str(), (long long)level.bytes, (long long)UsableBytes(level), (long long)q.rows,
                       (long long)q.keys, (long long)shape.qk_dim, (long long)shape.v_dim);
}

}  // namespace

Result<Schedule> Solve(const Shape& shape, const Machine& machine, const SolveOptions& options) {
  const Status status = Check(shape, machine, options);
  if (!status.ok()) return status;
  const Boundaries boundaries = FindBoundaries(machine);
  if (boundaries.outer == nullptr) {
    return Status::Error(Code::kInvalidArgument, "solve: machine \"%.60s\" has no cache or scratchpad of finite size",
                         machine.name.c_str());
  }
  const Tiles tiles = Solver(shape, boundaries, options).Best();
  if (tiles.rows == 0) return NothingFits(shape, *boundaries.outer, options.quantum);
  Schedule s;
  s.levels.push_back(
      {boundaries.outer->name, tiles.outer_dataflow, ChooseRows(shape, tiles.rows, options), tiles.keys});
  AddInner(boundaries, tiles, options, shape.rows(), &s);
  // A head whose rows are one tile reads its keys once: packing them block by block, in cache, saves writing and reading a copy.
  if (NumTiles(s, shape) <= 1) s.packing = Packing::kBlock;
  return s;
}

Result<Schedule> Complete(const Schedule& outer, const Shape& shape, const Machine& machine,
                          const SolveOptions& options) {
  const Status status = Check(shape, machine, options);
  if (!status.ok()) return status;
  if (outer.levels.empty()) return Status::Error(Code::kInvalidArgument, "complete: the schedule has no level");
  const Boundaries boundaries = FindBoundaries(machine);
  Schedule s = outer;
  if (boundaries.outer == nullptr) return s;
  Tiles tiles;
  Solver(shape, boundaries, options).Fit(outer.levels.back().keys, &tiles);
  if (tiles.strip == 0) tiles.strip = options.quantum.rows;
  AddInner(boundaries, tiles, options, shape.rows(), &s);
  return s;
}

}  // namespace attenio
