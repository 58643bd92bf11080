#include <algorithm>
#include <climits>
#include <cmath>
#include <new>

#include "api/explain.h"
#include "api/validate.h"
#include "attenio/attention.h"
#include "base/math.h"
#include "base/no_throw.h"
#include "exec/run.h"
#include "exec/shape.h"
#include "exec/wave.h"

namespace attenio {

struct Plan::Impl {
  Problem problem;
  Machine machine;
  std::string rejected;  // kernels passed over, with reasons
  std::string solved;    // "solved" or "given"
};

namespace {

// What the executor can run: strips that begin at a register tile, whole key panels within a block. A kernel keeps the scores
// of a strip in L1 and, if it fits, its O: query-resident and score-resident levels are the same calls in the same order.
Status CheckRunnable(const Schedule& s, const Quantum& quantum) {
  for (size_t i = 0; i < 2; ++i) {
    const Dataflow flow = s.levels[i].dataflow;
    if (flow == Dataflow::kQueryResident || flow == Dataflow::kScoreResident) continue;
    return Status::Error(Code::kUnsupported, "schedule level %s is %s, the executor runs query-resident and score-resident levels", s.levels[i].level.c_str(),
                         Name(flow));
  }
  const LevelTile &tile = s.levels[0], &strip = s.levels[1];
  if (strip.queries < tile.queries && strip.queries % quantum.rows != 0) {
    return Status::Error(Code::kInvalidArgument, "schedule level %s has %lld queries, expected a multiple of the kernel's %lld or those of the level above",
                         strip.level.c_str(), static_cast<long long>(strip.queries), static_cast<long long>(quantum.rows));
  }
  if (strip.keys < tile.keys && strip.keys % quantum.keys != 0) {
    return Status::Error(Code::kInvalidArgument, "schedule level %s has %lld keys, expected a multiple of the kernel's %lld or those of the level above",
                         strip.level.c_str(), static_cast<long long>(strip.keys), static_cast<long long>(quantum.keys));
  }
  return {};
}

Result<Schedule> ChooseSchedule(const Problem& p, const Machine& machine, const std::string& given) {
  const int64_t dim = std::max<int64_t>(1, p.shape.qk_dim);
  SolveOptions options;
  options.quantum = p.kernel->quantum;
  options.threads = p.workers;
  options.packed_bytes = std::max<int64_t>(1, p.kernel->q_row_bytes(dim) / dim);
  Result<Schedule> schedule = given.empty() ? Solve(p.shape, machine, options) : Schedule::Parse(given);
  if (schedule.ok() && !given.empty()) schedule = Complete(*schedule, p.shape, machine, options);
  if (!schedule.ok()) return schedule;
  if (schedule->levels.size() < 2) {  // a machine with one cache: the tile is cut into register tiles at once
    schedule->levels.push_back({.level = "L1", .queries = p.kernel->quantum.rows, .keys = schedule->levels[0].keys});
  }
  if (Status s = CheckRunnable(*schedule, p.kernel->quantum); !s.ok()) return s;
  return schedule;
}

Status CheckWorkspace(const Problem& p, const Operands& operands, std::span<std::byte> workspace) {
  if (Status s = CheckOperands(p.desc, operands); !s.ok()) return s;
  if (workspace.size() >= static_cast<size_t>(p.workspace_bytes) && (workspace.data() != nullptr || p.workspace_bytes == 0)) return {};
  return Status::Error(Code::kWorkspaceTooSmall, "workspace has %zu bytes, expected %lld", workspace.size(), static_cast<long long>(p.workspace_bytes));
}

Result<std::shared_ptr<Plan::Impl>> MakeImpl(const AttentionDesc& desc, const Options& options) {
  Result<AttentionDesc> resolved = Resolve(desc);
  if (!resolved.ok()) return resolved.status();
  if (options.workers < 0) return Status::Error(Code::kInvalidArgument, "workers is %d, expected 0 (the machine's cores) or more", options.workers);
  auto impl = std::make_shared<Plan::Impl>();
  impl->machine = options.machine != nullptr ? *options.machine : ThisMachine();
  Problem& p = impl->problem;
  p.desc = *resolved;
  if (desc.offsets != nullptr) p.offsets.assign(desc.offsets, desc.offsets + desc.batch);
  if (desc.kv_lens != nullptr) p.kv_lens.assign(desc.kv_lens, desc.kv_lens + desc.batch);
  p.desc.offsets = p.desc.kv_lens = nullptr;  // the copies count from here on
  p.shape = ShapeOf(p.desc);
  p.overlap = options.overlap;
  p.workers =
      options.workers > 0 ? options.workers : static_cast<int>(std::clamp<int64_t>(impl->machine.cores, 1, INT_MAX));
  p.kernel = SelectKernel(p.desc.dtype, p.desc.qk_dim, p.desc.v_dim, options.kernel, &impl->rejected);
  if (p.kernel == nullptr) {
    return Status::Error(Code::kUnsupported, "kernel %s: %s", options.kernel.empty() ? "(any)" : options.kernel.c_str(), impl->rejected.c_str());
  }
  Result<Schedule> schedule = ChooseSchedule(p, impl->machine, options.schedule);
  if (!schedule.ok()) return schedule.status();
  impl->solved = options.schedule.empty() ? "solved" : "given";
  p.schedule = *schedule;
  if (Status s = LayOut(&p, WaveBytes(impl->machine)); !s.ok()) return s;
  return impl;
}

}  // namespace

Result<Plan> Plan::Create(const AttentionDesc& desc, const Options& options) {
  return NoThrow([&]() -> Result<Plan> {
    Result<std::shared_ptr<Impl>> impl = MakeImpl(desc, options);
    if (!impl.ok()) return impl.status();
    return Plan(std::move(*impl));
  });
}

size_t Plan::workspace_bytes() const { return static_cast<size_t>(impl_->problem.workspace_bytes); }
int Plan::workers() const { return impl_->problem.workers; }
const Shape& Plan::shape() const { return impl_->problem.shape; }
const Schedule& Plan::schedule() const { return impl_->problem.schedule; }
const char* Plan::kernel() const { return impl_->problem.kernel->name; }
Quantum Plan::quantum() const { return impl_->problem.kernel->quantum; }
DType Plan::probability_type() const { return impl_->problem.kernel->probability_type; }
int64_t Plan::phases() const { return NumPhases(impl_->problem); }
int64_t Plan::tasks(int64_t phase) const { return phase < 0 || phase >= phases() ? 0 : NumTasks(impl_->problem, phase); }

std::string Plan::Explain() const { return ExplainProblem(impl_->problem, impl_->machine, impl_->rejected, impl_->solved); }

Status Plan::Run(const Operands& operands, std::span<std::byte> workspace, const Parallel& parallel) const {
  const Problem& p = impl_->problem;
  if (Status s = CheckWorkspace(p, operands, workspace); !s.ok()) return s;
  if (parallel.run == nullptr) return Status::Error(Code::kInvalidArgument, "parallel.run is null");
  if (parallel.workers < 1)
    return Status::Error(Code::kInvalidArgument, "parallel has %d workers, expected 1 or more", parallel.workers);
  if (parallel.workers > p.workers) {
    return Status::Error(Code::kInvalidArgument, "parallel has %d workers, but the plan was made for at most %d (Options::workers)", parallel.workers, p.workers);
  }
  RunAll(p, operands, workspace.data(), parallel);
  return {};
}

Status Plan::RunTask(const Operands& operands, std::span<std::byte> workspace, int64_t phase, int64_t task, int worker) const {
  const Problem& p = impl_->problem;
  if (Status s = CheckWorkspace(p, operands, workspace); !s.ok()) return s;
  if (phase < 0 || phase >= phases() || task < 0 || task >= tasks(phase)) {
    return Status::Error(Code::kInvalidArgument, "phase %lld task %lld, expected phase below %lld and task below its count", static_cast<long long>(phase),
                         static_cast<long long>(task), static_cast<long long>(phases()));
  }
  if (worker < 0 || worker >= p.workers) return Status::Error(Code::kInvalidArgument, "worker is %d, expected 0..%d", worker, p.workers - 1);
  attenio::RunTask(p, operands, workspace.data(), phase, task, worker);
  return {};
}

namespace {

Status AttendOnce(const AttentionDesc& desc, const Operands& operands, const Options& options) {
  Options with_workers = options;
  const DefaultExecutor executor(options.workers);
  with_workers.workers = executor.workers();
  Result<Plan> plan = Plan::Create(desc, with_workers);
  if (!plan.ok()) return plan.status();
  const std::unique_ptr<std::byte[]> workspace(new (std::nothrow) std::byte[plan->workspace_bytes()]);
  if (workspace == nullptr) return Status::Error(Code::kOutOfMemory, "no memory for a workspace of %zu bytes", plan->workspace_bytes());
  return plan->Run(operands, {workspace.get(), plan->workspace_bytes()}, executor.parallel());
}

}  // namespace

Status Attend(const AttentionDesc& desc, const Operands& operands, const Options& options) {
  return NoThrow([&] { return AttendOnce(desc, operands, options); });
}

std::vector<KernelInfo> Kernels() {
  std::vector<KernelInfo> infos;
  for (const KernelChoice& c : AllKernels()) {
    KernelInfo info;
    info.name = c.name;
    info.available = c.kernel != nullptr;
    info.reason = c.reason;
    if (c.kernel != nullptr) {
      info.quantum = c.kernel->quantum;
      info.probability_type = c.kernel->probability_type;
    }
    infos.push_back(info);
  }
  return infos;
}

}  // namespace attenio
