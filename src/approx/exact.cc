#include "approx/exact.h"

#include <algorithm>

#include "approx/parallel_for.h"
#include "base/math.h"
#include "exec/shape.h"
#include "exec/wave.h"

namespace attenio::approx {

Result<Problem> PlanExact(const AttentionDesc& desc, const ExactOptions& options) {
  Problem p;
  p.desc = desc;
  if (desc.offsets != nullptr) p.offsets.assign(desc.offsets, desc.offsets + desc.batch);
  if (desc.kv_lens != nullptr) p.kv_lens.assign(desc.kv_lens, desc.kv_lens + desc.batch);
  p.desc.offsets = p.desc.kv_lens = nullptr;
  p.shape = ShapeOf(desc);
  p.workers = options.workers;
  std::string rejected;
  p.kernel = SelectKernel(desc.dtype, desc.qk_dim, desc.v_dim, options.kernel, &rejected);
  if (p.kernel == nullptr)
    return Status::Error(Code::kUnsupported, "no kernel for the exact rows: %s", rejected.c_str());
  const Quantum& quantum = p.kernel->quantum;
  const int64_t dim = std::max<int64_t>(1, desc.qk_dim);
  Result<Schedule> schedule = Solve(p.shape, *options.machine,
                                    {.quantum = quantum,
                                     .threads = p.workers,
                                     .packed_bytes = std::max<int64_t>(1, p.kernel->q_row_bytes(dim) / dim)});
  if (!schedule.ok()) return schedule.status();
  if (options.tile_rows > 0) {
    schedule->levels[0].queries = options.tile_rows;
    schedule->levels.resize(1);
    schedule = Complete(*schedule, p.shape, *options.machine, {.quantum = quantum, .threads = p.workers});
    if (!schedule.ok()) return schedule.status();
    schedule->levels[0].dataflow = Dataflow::kQueryResident;
    schedule->packing = options.packing;
  }
  while (schedule->levels.size() < 2)
    schedule->levels.push_back({"L1", Dataflow::kQueryResident, quantum.rows, schedule->levels[0].keys});
  if (options.tile_rows > 0) {  // short tiles: whole strips at once
    schedule->levels[1].dataflow = Dataflow::kQueryResident;
    schedule->levels[1].keys = schedule->levels[0].keys;
  }
  p.schedule = *schedule;
  if (Status s = LayOut(&p, WaveBytes(*options.machine)); !s.ok()) return s;
  return p;
}

void RunTiles(const Problem& p, const Operands& operands, std::byte* workspace, int64_t tiles,
              const Parallel& parallel) {
  const int64_t last = NumPhases(p) - 1;
  for (int64_t phase = 0; phase <= last; ++phase) {
    // The executor numbers query tiles from the last to the first.
    const int64_t tasks = phase < last ? NumTasks(p, phase) : std::min(tiles, p.tiles);
    ParallelFor(parallel, tasks, [&](int64_t i, int worker) {
      RunTask(p, operands, workspace, phase, phase < last ? i : p.tiles - 1 - i, worker);
    });
  }
}

}  // namespace attenio::approx
