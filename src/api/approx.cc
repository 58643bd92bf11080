#include "attenio/approx.h"

#include <memory>
#include <new>

#include "api/validate.h"
#include "approx/run.h"
#include "base/no_throw.h"

namespace attenio {

struct ApproxPlan::Impl {
  approx::Approximation approximation;
};

namespace {

Status CheckOptions(const ApproxOptions& o) {
  if (!(o.max_error > 0 && o.max_error <= 1)) {
    return Status::Error(Code::kInvalidArgument, "max_error is %g, expected more than 0 and at most 1", o.max_error);
  }
  if (o.max_degree < 0 || o.max_degree > approx::kMaxDegree) {
    return Status::Error(Code::kInvalidArgument, "max_degree is %d, expected 0..%d", o.max_degree, approx::kMaxDegree);
  }
  if (o.method != ApproxMethod::kState && o.method != ApproxMethod::kGroups) {
    return Status::Error(Code::kInvalidArgument, "method is %d, expected kState or kGroups",
                         static_cast<int>(o.method));
  }
  if (o.mode != ApproxMode::kFastest && o.mode != ApproxMode::kPolynomial) {
    return Status::Error(Code::kInvalidArgument, "mode is %d, expected kFastest or kPolynomial",
                         static_cast<int>(o.mode));
  }
  if (o.workers < 0) {
    return Status::Error(Code::kInvalidArgument, "workers is %d, expected 0 (the machine's cores) or more", o.workers);
  }
  return {};
}

}  // namespace

Result<ApproxPlan> ApproxPlan::Create(const AttentionDesc& desc, const ApproxOptions& options) {
  if (Status s = CheckOptions(options); !s.ok()) return s;
  return NoThrow([&]() -> Result<ApproxPlan> {
    const Result<AttentionDesc> resolved = Resolve(desc);
    if (!resolved.ok()) return resolved.status();
    const Machine& machine = options.machine != nullptr ? *options.machine : ThisMachine();
    Result<approx::Approximation> a = approx::PlanApproximation(*resolved, options, machine);
    if (!a.ok()) return a.status();
    return ApproxPlan(std::make_shared<const Impl>(Impl{std::move(*a)}));
  });
}

size_t ApproxPlan::workspace_bytes() const { return static_cast<size_t>(impl_->approximation.at.bytes); }
int ApproxPlan::workers() const { return impl_->approximation.workers; }
const Shape& ApproxPlan::shape() const { return impl_->approximation.shape; }

double ApproxPlan::largest_bound() const {
  const approx::Approximation& a = impl_->approximation;
  return a.all.has_value() || a.classes.empty() ? 0 : a.classes.back().p.bound;
}

int64_t ApproxPlan::features(int degree) const { return FeatureCount(shape().qk_dim, degree); }

Status ApproxPlan::Run(const Operands& operands, std::span<std::byte> workspace, const Parallel& parallel,
                       ApproxReport* report) const {
  const approx::Approximation& a = impl_->approximation;
  if (Status s = CheckOperands(a.desc, operands); !s.ok()) return s;
  if (workspace.size() < workspace_bytes() || (workspace.data() == nullptr && workspace_bytes() > 0)) {
    return Status::Error(Code::kWorkspaceTooSmall, "workspace has %zu bytes, expected %zu", workspace.size(),
                         workspace_bytes());
  }
  if (parallel.run == nullptr) return Status::Error(Code::kInvalidArgument, "parallel.run is null");
  if (parallel.workers < 1)
    return Status::Error(Code::kInvalidArgument, "parallel has %d workers, expected 1 or more", parallel.workers);
  if (parallel.workers > a.workers) {
    return Status::Error(Code::kInvalidArgument,
                         "parallel has %d workers, but the plan was made for at most %d (ApproxOptions::workers)",
                         parallel.workers, a.workers);
  }
  approx::RunApproximation(a, operands, workspace.data(), parallel, report);
  return {};
}

namespace {

Status AttendApproxOnce(const AttentionDesc& desc, const Operands& operands, const ApproxOptions& options,
                        ApproxReport* report) {
  ApproxOptions with_workers = options;
  const DefaultExecutor executor(options.workers);
  with_workers.workers = executor.workers();
  const Result<ApproxPlan> plan = ApproxPlan::Create(desc, with_workers);
  if (!plan.ok()) return plan.status();
  const std::unique_ptr<std::byte[]> workspace(new (std::nothrow) std::byte[plan->workspace_bytes()]);
  if (workspace == nullptr)
    return Status::Error(Code::kOutOfMemory, "no memory for a workspace of %zu bytes", plan->workspace_bytes());
  return plan->Run(operands, {workspace.get(), plan->workspace_bytes()}, executor.parallel(), report);
}

}  // namespace

Status AttendApprox(const AttentionDesc& desc, const Operands& operands, const ApproxOptions& options,
                    ApproxReport* report) {
  return NoThrow([&] { return AttendApproxOnce(desc, operands, options, report); });
}

}  // namespace attenio
