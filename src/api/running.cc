#include <cmath>
#include <memory>
#include <new>
#include <utility>

#include "approx/running.h"
#include "attenio/approx.h"
#include "base/no_throw.h"

namespace attenio {

struct RunningState::Impl {
  approx::Running running;
};

RunningState::RunningState(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunningState::RunningState(RunningState&&) noexcept = default;
RunningState& RunningState::operator=(RunningState&&) noexcept = default;
RunningState::~RunningState() = default;

Result<RunningState> RunningState::Create(const RunningOptions& o) {
  if (o.qk_dim < 1 || o.v_dim < 1) {
    return Status::Error(Code::kInvalidArgument, "dims %lld/%lld, expected at least 1", static_cast<long long>(o.qk_dim),
                         static_cast<long long>(o.v_dim));
  }
  if (!o.centre.empty() && static_cast<int64_t>(o.centre.size()) != o.qk_dim) {
    return Status::Error(Code::kInvalidArgument, "centre has %zu elements, expected qk_dim %lld", o.centre.size(), static_cast<long long>(o.qk_dim));
  }
  for (float x : o.centre) {
    if (!std::isfinite(x)) return Status::Error(Code::kInvalidArgument, "centre is not finite");
  }
  if (!(o.key_radius >= 0) || !(o.query_norm >= 0) || !std::isfinite(o.scale.value_or(1))) {
    return Status::Error(Code::kInvalidArgument, "key_radius %g, query_norm %g, expected numbers from 0 and a finite scale", o.key_radius, o.query_norm);
  }
  if (!(o.max_error > 0 && o.max_error <= 1) || o.max_degree < 0 || o.max_degree > approx::kMaxDegree) {
    return Status::Error(Code::kInvalidArgument, "max_error %g, max_degree %d, expected (0, 1] and 0..%d", o.max_error, o.max_degree, approx::kMaxDegree);
  }
  return NoThrow([&]() -> Result<RunningState> {
    const int degree = approx::Running::ChooseDegree(o);
    if (degree < 0) {
      return Status::Error(Code::kUnsupported,
                           "no polynomial up to degree %d meets max_error %g for key_radius %g and query_norm %g",
                           o.max_degree, o.max_error, o.key_radius, o.query_norm);
    }
    return RunningState(std::make_unique<Impl>(Impl{approx::Running(o, degree)}));
  });
}

Status RunningState::Add(const float* keys, const float* values, int64_t count) {
  if (count < 0 || (count > 0 && (keys == nullptr || values == nullptr))) return Status::Error(Code::kInvalidArgument, "keys or values are missing");
  return impl_->running.Add(keys, values, count);
}

Status RunningState::Attend(const float* queries, int64_t rows, float* out, float* certified) {
  if (rows < 0 || (rows > 0 && (queries == nullptr || out == nullptr))) return Status::Error(Code::kInvalidArgument, "queries or out are missing");
  return impl_->running.Attend(queries, rows, out, certified);
}

int64_t RunningState::keys() const { return impl_->running.keys(); }
int RunningState::degree() const { return impl_->running.layout().monomials().degree(); }
int64_t RunningState::features() const { return impl_->running.layout().monomials().count(); }
int64_t RunningState::bytes() const { return impl_->running.bytes(); }

}  // namespace attenio
