#include <cmath>

#include "api/validate.h"
#include "approx/comparators.h"

namespace attenio {
namespace {

const char* WhyNot(const AttentionDesc& d) {
  if (d.dtype != DType::kF32 || d.out_dtype.value_or(d.dtype) != DType::kF32) return "comparators take f32 only";
  if (d.softcap > 0 || d.alibi || d.sinks || d.lse || d.mask.dtype.has_value() || d.window_left != kUnbounded || d.window_right != kUnbounded ||
      d.kv_lens != nullptr || d.offsets != nullptr) {
    return "comparators take no modifiers";
  }
  return nullptr;
}

RowView View(const void* base, const Strides& s, int64_t batch, int64_t head) {
  return {.base = static_cast<const float*>(base) + batch * s.batch + head * s.head, .outer = s.row, .element = s.element};
}

}  // namespace

Status RunComparator(const AttentionDesc& desc, const Operands& operands, const ComparatorOptions& o) {
  const Result<AttentionDesc> resolved = Resolve(desc);
  if (!resolved.ok()) return resolved.status();
  const AttentionDesc& d = *resolved;
  if (Status s = CheckOperands(d, operands); !s.ok()) return s;
  if (const char* reason = WhyNot(d)) return Status::Error(Code::kUnsupported, "%s", reason);
  if (d.causal != (o.method == Comparator::kWindow)) return Status::Error(Code::kUnsupported, "the sliding window is causal, the others are not");
  if (d.qk_dim < 1 || d.v_dim < 1 || d.kv_len < 1) return Status::Error(Code::kUnsupported, "nothing to approximate");
  if (o.features < 1 || o.sinks < 0 || (o.method == Comparator::kTaylor && o.features > 8)) {
    return Status::Error(Code::kInvalidArgument, "features is %lld, expected at least 1 (a Taylor degree: at most 8)", static_cast<long long>(o.features));
  }
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
        case Comparator::kTaylor: approx::RunTaylor(h, static_cast<int>(o.features)); break;
        case Comparator::kPerformer: approx::RunPerformer(h, o); break;
        case Comparator::kNystrom: approx::RunNystrom(h, o.features); break;
        case Comparator::kWindow: approx::RunWindow(h, o); break;
      }
    }
  }
  return {};
}

}  // namespace attenio
