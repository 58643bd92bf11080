#include <cmath>

#include "api/validate.h"
#include "approx/comparators.h"
#include "approx/state.h"
#include "attenio/io_poly.h"
#include "base/no_throw.h"

namespace attenio {
namespace {

const char* WhyNot(const AttentionDesc& d) {
  if (d.dtype != DType::kF32 || d.out_dtype.value_or(d.dtype) != DType::kF32) return "comparators take f32 only";
  if (d.softcap > 0 || d.alibi || d.sinks || d.lse || d.mask.dtype.has_value() || d.window_left != kUnbounded ||
      d.window_right != kUnbounded || d.kv_lens != nullptr || d.offsets != nullptr) {
    return "comparators take no modifiers";
  }
  return nullptr;
}

RowView View(const void* base, const Strides& s, int64_t batch, int64_t head) {
  return {
      .base = static_cast<const float*>(base) + batch * s.batch + head * s.head, .outer = s.row, .element = s.element};
}

}  // namespace

namespace {

constexpr int64_t kMostFeatures = 65536;
constexpr int64_t kMostLandmarks = 8192;  // a Cholesky factor of minutes

// An error unless `features` makes sense for the method.
Status CheckFeatures(const AttentionDesc& d, const ComparatorOptions& o) {
  if (o.method > Comparator::kWindow)
    return Status::Error(Code::kInvalidArgument, "method is %d, expected a Comparator", static_cast<int>(o.method));
  if (o.sinks < 0)
    return Status::Error(Code::kInvalidArgument, "sinks is %lld, expected 0 or more", static_cast<long long>(o.sinks));
  const bool taylor = o.method == Comparator::kTaylor, window = o.method == Comparator::kWindow;
  const bool nystrom = o.method == Comparator::kNystrom;
  const int64_t most = taylor ? 8 : window ? INT64_MAX : nystrom ? kMostLandmarks : kMostFeatures;
  if (o.features < 1 || o.features > most) {
    return Status::Error(Code::kInvalidArgument, "features is %lld, expected 1..%lld%s",
                         static_cast<long long>(o.features), static_cast<long long>(most), taylor ? " (a degree)" : "");
  }
  if (taylor && FeatureCount(d.qk_dim, static_cast<int>(o.features)) > approx::kMaxFeatures) {
    return Status::Error(Code::kUnsupported, "degree %lld of qk_dim %lld has more than %lld features",
                         static_cast<long long>(o.features), static_cast<long long>(d.qk_dim),
                         static_cast<long long>(approx::kMaxFeatures));
  }
  return {};
}

Status Run(const AttentionDesc& desc, const Operands& operands, const ComparatorOptions& o) {
  const Result<AttentionDesc> resolved = Resolve(desc);
  if (!resolved.ok()) return resolved.status();
  const AttentionDesc& d = *resolved;
  if (Status s = CheckOperands(d, operands); !s.ok()) return s;
  if (const char* reason = WhyNot(d)) return Status::Error(Code::kUnsupported, "%s", reason);
  if (d.causal != (o.method == Comparator::kWindow))
    return Status::Error(Code::kUnsupported, "the sliding window is causal, the others are not");
  if (d.qk_dim < 1 || d.v_dim < 1 || d.kv_len < 1) return Status::Error(Code::kUnsupported, "nothing to approximate");
  if (d.qk_dim > approx::kMaxDim || d.v_dim > approx::kMaxDim) {
    return Status::Error(Code::kUnsupported, "dims %lld/%lld, expected at most %lld", static_cast<long long>(d.qk_dim),
                         static_cast<long long>(d.v_dim), static_cast<long long>(approx::kMaxDim));
  }
  if (Status s = CheckFeatures(d, o); !s.ok()) return s;
  for (int64_t b = 0; b < d.batch; ++b) {
    for (int64_t head = 0; head < d.q_heads; ++head) {
      const int64_t kv_head = head / (d.q_heads / d.kv_heads);
      approx::ComparatorHead h;
      h.q = View(operands.q, d.q, b, head);
      h.k = View(operands.k, d.k, b, kv_head);
      h.v = View(operands.v, d.v, b, kv_head);
      h.out = View(operands.out, d.out, b, head);
      h.rows = d.q_len;
      h.keys = d.kv_len;
      h.qk_dim = d.qk_dim;
      h.v_dim = d.v_dim;
      h.offset = d.offset;
      h.scale = *d.scale;
      switch (o.method) {
        case Comparator::kTaylor:
          approx::RunTaylor(h, static_cast<int>(o.features));
          break;
        case Comparator::kPerformer:
          approx::RunPerformer(h, o);
          break;
        case Comparator::kNystrom:
          approx::RunNystrom(h, o.features);
          break;
        case Comparator::kWindow:
          approx::RunWindow(h, o);
          break;
      }
    }
  }
  return {};
}

}  // namespace

Status RunComparator(const AttentionDesc& desc, const Operands& operands, const ComparatorOptions& options) {
  return NoThrow([&] { return Run(desc, operands, options); });
}

}  // namespace attenio
