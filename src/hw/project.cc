// Walks the Steps of a run, one by one or folded, and turns the counts into a report.
#include <algorithm>

#include "hw/energy.h"
#include "hw/timeline.h"

namespace attenio {
namespace hw {
namespace {

// Key blocks of a tile that are walked when it is folded. A series settles within a few steps; a walk that has not is
// repeated in full.
constexpr int64_t kKeptBlocks = 32;

void WalkTile(const Run& run, const Shape& shape, Range queries, Timeline* timeline) {
  ForEachStep(
      run.schedule, shape, queries, [&](const Step& step) { timeline->Push(step, shape.kv_len); }, 1);
}

// The same tile with `skip` key blocks fewer, taken from the front: positions and the end of the keys move together.
Shape Shorter(const Run& run, int64_t skip) {
  Shape shape = run.shape;
  shape.kv_len -= skip * run.tile().keys;
  if (shape.banded()) shape.offset -= skip * run.tile().keys;
  return shape;
}

void WalkTileFolded(const Run& run, Range queries, Timeline* timeline) {
  const Range keys = run.shape.AnyKeys(queries);
  const int64_t skip = keys.size() / run.tile().keys - kKeptBlocks;
  const bool series = run.tile().dataflow == Dataflow::kQueryResident && keys.begin == 0 && skip > 0;
  if (!series) return WalkTile(run, run.shape, queries, timeline);
  const Shape shorter = Shorter(run, skip);
  const bool same_tile = shorter.AnyKeys(queries) == Range{0, keys.size() - skip * run.tile().keys};
  if (!same_tile) return WalkTile(run, run.shape, queries, timeline);
  const Timeline before = *timeline;
  timeline->SkipAhead(skip);
  WalkTile(run, shorter, queries, timeline);
  if (timeline->left_to_skip() == 0) return;
  *timeline = before;
  WalkTile(run, run.shape, queries, timeline);
}

void WalkHead(const Run& run, bool every_event, Timeline* timeline) {
  const int64_t tiles = NumTiles(run.schedule, run.shape);
  for (int64_t t = 0; t < tiles; ++t) {
    const Range queries = TileQueries(run.schedule, run.shape, t);
    if (every_event) {
      WalkTile(run, run.shape, queries, timeline);
    } else {
      WalkTileFolded(run, queries, timeline);
    }
  }
}

void WalkHeads(const Run& run, bool every_event, Timeline* timeline) {
  const int64_t heads = run.shape.batch * run.shape.kv_heads;
  Timeline::Mark mark;
  for (int64_t h = 0; h < heads; ++h) {
    WalkHead(run, every_event, timeline);
    // The first head differs: nothing was loaded ahead for it.
    if (!every_event && h > 0 && timeline->SameAs(mark)) {
      timeline->Repeat(mark, heads - h - 1);
      break;
    }
    mark = timeline->Here();
  }
  timeline->Flush();
}

Traffic Bytes(const Counters& c, int64_t element_bytes) {
  const auto bytes = [element_bytes](int64_t words) {
    return static_cast<double>(words) * static_cast<double>(element_bytes);
  };
  Traffic t;
  t.q = bytes(c.q);
  t.k = bytes(c.k);
  t.v = bytes(c.v);
  t.out = bytes(c.out);
  t.scores = bytes(c.scores);
  return t;
}

}  // namespace
}  // namespace hw

Result<Projection> Project(const Accelerator& accelerator, const Shape& shape, const ProjectOptions& options) {
  Result<hw::Run> run = hw::MakeRun(accelerator, shape, options);
  if (!run.ok()) return run.status();
  hw::Timeline timeline(*run);
  hw::WalkHeads(*run, options.every_event, &timeline);
  const hw::Counters& c = timeline.counters();

  Projection p;
  p.schedule = run->schedule;
  p.cycles = timeline.cycles();
  p.steps = timeline.steps();
  if (p.cycles == 0) return p;  // a mask that allows nothing
  const double cycles = static_cast<double>(p.cycles);
  p.seconds = cycles / accelerator.clock_hz;
  p.bytes = hw::Bytes(c, accelerator.element_bytes);
  p.pe_busy = c.pe_busy;
  p.exp_busy = c.exp_busy;
  p.memory_busy = c.memory_busy;
  p.stall = c.stall;
  p.exponentials = c.exponentials;
  p.pe_utilisation = static_cast<double>(c.pe_busy) / cycles;
  p.mac_utilisation = shape.Flops() / (2.0 * static_cast<double>(accelerator.macs()) * cycles);
  p.exp_utilisation = c.exponentials / (static_cast<double>(accelerator.exp_modules) * cycles);
  p.exp_occupancy = static_cast<double>(c.exp_busy) / cycles;
  p.memory_utilisation = static_cast<double>(c.memory_busy) / cycles;
  p.stall_share = static_cast<double>(c.stall) / cycles;
  hw::AddEnergy(accelerator, &p);
  return p;
}

Result<std::vector<Event>> HwTimeline(const Accelerator& accelerator, const Shape& shape, const ProjectOptions& options,
                                      Range window) {
  Result<hw::Run> run = hw::MakeRun(accelerator, shape, options);
  if (!run.ok()) return run.status();
  std::vector<Event> events;
  hw::Timeline timeline(*run, &events, window);
  hw::WalkHead(*run, true, &timeline);
  timeline.Flush();
  return events;
}

}  // namespace attenio
