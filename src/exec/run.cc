#include "exec/run.h"

#include <algorithm>

#include "base/math.h"
#include "exec/tasks.h"
#include "exec/workspace.h"

namespace attenio {
namespace {

int64_t Waves(const Problem& p) { return CeilDiv(p.heads, p.wave); }

int64_t HeadsInWave(const Problem& p, int64_t wave) {
  return wave < 0 ? 0 : std::clamp<int64_t>(p.heads - wave * p.wave, 0, p.wave);
}

struct Phase {
  int64_t compute_wave, compute_tasks, pack_wave, pack_tasks;
};

// Packing for themselves, tasks need no other phase. Ahead: phase i computes wave i - 1 and packs wave i. Else they alternate.
Phase PhaseOf(const Run& run, int64_t phase) {
  const Problem& p = run.p;
  const auto compute = [&](int64_t wave) { return HeadsInWave(p, wave) * p.tiles; };
  const auto pack = [&](int64_t wave) { return p.tiles > 0 ? HeadsInWave(p, wave) * run.packs() : 0; };
  if (p.schedule.packing == Packing::kBlock) return {phase, compute(phase), 0, 0};
  if (p.overlap.pack_ahead) return {phase - 1, compute(phase - 1), phase, pack(phase)};
  const int64_t wave = phase / 2;
  return phase % 2 == 0 ? Phase{0, 0, wave, pack(wave)} : Phase{wave, compute(wave), 0, 0};
}

std::byte* Align(std::byte* workspace) {
  const auto at = reinterpret_cast<uintptr_t>(workspace);
  return workspace + (WorkspaceSizer::kAlignment - at % WorkspaceSizer::kAlignment) % WorkspaceSizer::kAlignment;
}

}  // namespace

int64_t NumPhases(const Problem& p) {
  if (p.tiles == 0) return 0;
  if (p.schedule.packing == Packing::kBlock) return Waves(p);
  return p.overlap.pack_ahead ? Waves(p) + 1 : 2 * Waves(p);
}

int64_t NumTasks(const Problem& p, int64_t phase) {
  const Phase f = PhaseOf({p, {}, nullptr}, phase);
  return f.compute_tasks + f.pack_tasks;
}

void RunTask(const Problem& p, const Operands& operands, std::byte* workspace, int64_t phase, int64_t task,
             int worker) {
  const Run run{p, operands, Align(workspace)};
  const Phase f = PhaseOf(run, phase);
  if (task >= f.compute_tasks) {
    const int64_t i = task - f.compute_tasks;
    return PackTask(run, f.pack_wave * p.wave + i / run.packs(), i % run.packs());
  }
  // Head by head, so that workers sweep the same K and V; the last tiles first: under a causal mask they cost most.
  TileTask(run, f.compute_wave * p.wave + task / p.tiles, p.tiles - 1 - task % p.tiles, worker);
}

void RunAll(const Problem& p, const Operands& operands, std::byte* workspace, const Parallel& parallel) {
  struct Call {
    const Problem& p;
    const Operands& operands;
    std::byte* workspace;
    int64_t phase;
  } call{p, operands, workspace, 0};
  for (; call.phase < NumPhases(p); ++call.phase) {
    const int64_t tasks = NumTasks(p, call.phase);
    if (tasks == 0) continue;
    parallel.run(
        parallel.context, tasks,
        [](void* argument, int64_t task, int worker) {
          const Call& c = *static_cast<const Call*>(argument);
          RunTask(c.p, c.operands, c.workspace, c.phase, task, worker);
        },
        &call);
  }
}

}  // namespace attenio
