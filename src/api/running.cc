#include <cmath>
#include <limits>
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
  for (const auto& [name, dim] : {std::pair{"qk_dim", o.qk_dim}, std::pair{"v_dim", o.v_dim}}) {
    if (dim >= 1 && dim <= approx::kMaxDim) continue;
    return Status::Error(Code::kInvalidArgument, "%s is %lld, expected 1..%lld", name, static_cast<long long>(dim),
                         static_cast<long long>(approx::kMaxDim));
  }
  if (!o.centre.empty() && static_cast<int64_t>(o.centre.size()) != o.qk_dim) {
    return Status::Error(Code::kInvalidArgument, "centre has %zu elements, expected qk_dim %lld", o.centre.size(),
                         static_cast<long long>(o.qk_dim));
  }
  for (float x : o.centre) {
    if (!std::isfinite(x)) return Status::Error(Code::kInvalidArgument, "centre is not finite");
  }
  constexpr double kLargest = std::numeric_limits<float>::max();
  for (const auto& [name, length] : {std::pair{"key_radius", o.key_radius}, std::pair{"query_norm", o.query_norm}}) {
    if (!(length >= 0 && length <= kLargest))
      return Status::Error(Code::kInvalidArgument, "%s is %g, expected 0 to %g", name, length, kLargest);
  }
  if (!(std::abs(o.scale.value_or(1)) <= 0x1p127)) {
    return Status::Error(Code::kInvalidArgument, "scale is %g, expected a number within 2^127", *o.scale);
  }
  if (!(o.max_error > 0 && o.max_error <= 1)) {
    return Status::Error(Code::kInvalidArgument, "max_error is %g, expected more than 0 and at most 1", o.max_error);
  }
  if (o.max_degree < 0 || o.max_degree > approx::kMaxDegree) {
    return Status::Error(Code::kInvalidArgument, "max_degree is %d, expected 0..%d", o.max_degree, approx::kMaxDegree);
  }
  return NoThrow([&]() -> Result<RunningState> {
    const int degree = approx::Running::ChooseDegree(o);
    if (degree < 0) {
      return Status::Error(Code::kUnsupported,
                           "no polynomial up to degree %d meets max_error %g for key_radius %g and query_norm %g",
                           o.max_degree, o.max_error, o.key_radius, o.query_norm);
    }
    // 1 GiB, twice: what is new is summed apart from what is old.
    const approx::StateLayout layout(o.qk_dim, o.v_dim, degree);
    if (layout.floats(degree) > (int64_t{1} << 28)) {
      return Status::Error(Code::kUnsupported, "a state of %lld features x v_dim %lld is larger than 2^28 elements",
                           static_cast<long long>(layout.monomials().count()), static_cast<long long>(o.v_dim));
    }
    return RunningState(std::make_unique<Impl>(Impl{approx::Running(o, degree)}));
  });
}

Status RunningState::Add(const float* keys, const float* values, int64_t count) {
  if (count < 0 || (count > 0 && (keys == nullptr || values == nullptr)))
    return Status::Error(Code::kInvalidArgument, "keys or values are missing");
  return impl_->running.Add(keys, values, count);
}

Status RunningState::Attend(const float* queries, int64_t rows, float* out, float* certified) {
  if (rows < 0 || (rows > 0 && (queries == nullptr || out == nullptr)))
    return Status::Error(Code::kInvalidArgument, "queries or out are missing");
  return impl_->running.Attend(queries, rows, out, certified);
}

int64_t RunningState::keys() const { return impl_->running.keys(); }
int RunningState::degree() const { return impl_->running.layout().monomials().degree(); }
int64_t RunningState::features() const { return impl_->running.layout().monomials().count(); }
int64_t RunningState::bytes() const { return impl_->running.bytes(); }

}  // namespace attenio
