#include "api/validate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/math.h"

namespace attenio {
namespace {

using ll = long long;

// Far beyond any memory, and small enough that sums of a few positions cannot overflow.
constexpr int64_t kMaxPosition = int64_t{1} << 60;

struct Axis {
  const char* name;
  int64_t extent;
  int64_t stride;
};
using Axes = std::array<Axis, 4>;

Status CheckExtent(const char* name, int64_t value) {
  if (value < 0) return Status::Error(Code::kInvalidArgument, "%s is %lld, expected 0 or more", name, ll{value});
  if (value > kMaxPosition) return Status::Error(Code::kInvalidArgument, "%s is %lld, expected at most 2^60", name, ll{value});
  return {};
}

bool IsEmpty(const Axes& axes) {
  return std::any_of(axes.begin(), axes.end(), [](const Axis& a) { return a.extent == 0; });
}

// Strides not negative and the last element's byte offset within 63 bits.
Status CheckStrides(const char* tensor, const Axes& axes, int64_t element_bytes) {
  int64_t last = 0;
  for (const Axis& a : axes) {
    if (a.stride < 0) {
      return Status::Error(Code::kInvalidArgument, "%s stride of %s is %lld, expected 0 or more", tensor, a.name, ll{a.stride});
    }
    if (IsEmpty(axes)) continue;
    int64_t reach = a.extent - 1;
    if (!MultiplyInto(&reach, a.stride) || !AddInto(&last, reach)) {
      return Status::Error(Code::kInvalidArgument, "%s: %s extent %lld with stride %lld overflows", tensor, a.name, ll{a.extent}, ll{a.stride});
    }
  }
  if (!AddInto(&last, 1) || !MultiplyInto(&last, element_bytes)) {
    return Status::Error(Code::kInvalidArgument, "%s is larger than 2^63 bytes", tensor);
  }
  return {};
}

// Outputs: every element its own place. Nested axes (each stride at least the reach of the smaller ones) are the layouts in use.
Status CheckNoOverlap(const char* tensor, Axes axes) {
  if (IsEmpty(axes)) return {};
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  int64_t reach = 0;
  for (const Axis& a : axes) {
    if (a.extent == 1) continue;
    if (a.stride <= reach) {
      return Status::Error(Code::kInvalidArgument, "%s must not overlap itself: %s stride %lld, expected more than %lld", tensor, a.name,
                           ll{a.stride}, ll{reach});
    }
    reach += (a.extent - 1) * a.stride;
  }
  return {};
}

// Replaces kContiguous by the stride of a contiguous (batch, head, row, element) tensor.
Status FillStrides(const char* tensor, Strides* s, int64_t heads, int64_t rows, int64_t dim) {
  int64_t row = dim, head = dim, batch = dim;
  if (!MultiplyInto(&head, rows) || !MultiplyInto(&batch, rows) || !MultiplyInto(&batch, heads)) {
    return Status::Error(Code::kInvalidArgument, "%s: %lld heads of %lld x %lld elements overflow", tensor, ll{heads}, ll{rows}, ll{dim});
  }
  if (s->row == kContiguous) s->row = row;
  if (s->head == kContiguous) s->head = head;
  if (s->batch == kContiguous) s->batch = batch;
  return {};
}

Axes TensorAxes(const Strides& s, int64_t batch, int64_t heads, int64_t rows, int64_t dim) {
  return {{{"batch", batch, s.batch}, {"head", heads, s.head}, {"row", rows, s.row}, {"element", dim, s.element}}};
}

Status ResolveExtents(const AttentionDesc& d) {
  const std::pair<const char*, int64_t> extents[] = {{"batch", d.batch},   {"q_heads", d.q_heads}, {"kv_heads", d.kv_heads}, {"q_len", d.q_len},
                                                     {"kv_len", d.kv_len}, {"qk_dim", d.qk_dim},   {"v_dim", d.v_dim}};
  for (const auto& [name, value] : extents) {
    if (Status s = CheckExtent(name, value); !s.ok()) return s;
  }
  if (d.kv_heads == 0) return Status::Error(Code::kInvalidArgument, "kv_heads is 0, expected 1 or more (q_heads is %lld)", ll{d.q_heads});
  if (d.q_heads % d.kv_heads != 0) {
    return Status::Error(Code::kInvalidArgument, "q_heads %lld is not a multiple of kv_heads %lld", ll{d.q_heads}, ll{d.kv_heads});
  }
  int64_t heads = d.kv_heads;
  if (!MultiplyInto(&heads, d.batch) || heads > kMaxPosition) {
    return Status::Error(Code::kInvalidArgument, "batch %lld x kv_heads %lld heads overflow", ll{d.batch},
                         ll{d.kv_heads});
  }
  int64_t rows = d.q_heads;  // every count that is formed later: rows, heads, scores
  if (!MultiplyInto(&rows, d.batch) || !MultiplyInto(&rows, std::max<int64_t>(d.q_len, 1)) || rows > kMaxPosition) {
    return Status::Error(Code::kInvalidArgument, "batch %lld x q_heads %lld x q_len %lld rows overflow", ll{d.batch}, ll{d.q_heads}, ll{d.q_len});
  }
  return {};
}

Status ResolveTypes(AttentionDesc* d) {
  if (d->dtype > DType::kF16) return Status::Error(Code::kInvalidArgument, "dtype is %d, expected f32, bf16 or f16", static_cast<int>(d->dtype));
  if (!d->out_dtype) d->out_dtype = d->dtype;
  if (*d->out_dtype != d->dtype && *d->out_dtype != DType::kF32) {
    return Status::Error(Code::kInvalidArgument, "out_dtype is %s, expected %s or f32", Name(*d->out_dtype), Name(d->dtype));
  }
  return {};
}

Status ResolveModifiers(AttentionDesc* d) {
  if (!d->scale && d->qk_dim == 0) return Status::Error(Code::kInvalidArgument, "scale must be given when qk_dim is 0");
  if (!d->scale) d->scale = 1 / std::sqrt(static_cast<double>(d->qk_dim));
  // Scores are computed in f32: neither may become infinite or lose its digits there. (The scale is multiplied by log2 e.)
  if (!(std::abs(*d->scale) <= 0x1p127))
    return Status::Error(Code::kInvalidArgument, "scale is %g, expected a number within 2^127", *d->scale);
  if (d->softcap != 0 && !(d->softcap >= 0x1p-126 && d->softcap <= 0x1p126)) {
    return Status::Error(Code::kInvalidArgument, "softcap is %g, expected 0 (off) or 2^-126 to 2^126", d->softcap);
  }
  for (const auto& [name, side] : {std::pair{"window_left", &d->window_left}, std::pair{"window_right", &d->window_right}}) {
    if (*side < kUnbounded) return Status::Error(Code::kInvalidArgument, "%s is %lld, expected -1 (unbounded) or more", name, ll{*side});
    *side = std::min(*side, kMaxPosition);
  }
  if (d->offset < -kMaxPosition || d->offset > kMaxPosition) {
    return Status::Error(Code::kInvalidArgument, "offset is %lld, expected within 2^60", ll{d->offset});
  }
  if (d->offsets == nullptr && d->kv_lens == nullptr) return {};  // the batch may be 2^40
  for (int64_t b = 0; b < d->batch; ++b) {
    if (d->offsets != nullptr && (d->offsets[b] < -kMaxPosition || d->offsets[b] > kMaxPosition)) {
      return Status::Error(Code::kInvalidArgument, "offsets[%lld] is %lld, expected within 2^60", ll{b}, ll{d->offsets[b]});
    }
    if (d->kv_lens != nullptr && (d->kv_lens[b] < 0 || d->kv_lens[b] > d->kv_len)) {
      return Status::Error(Code::kInvalidArgument, "kv_lens[%lld] is %lld, expected 0..kv_len = %lld", ll{b}, ll{d->kv_lens[b]}, ll{d->kv_len});
    }
  }
  return {};
}

Status ResolveMask(AttentionDesc* d) {
  MaskDesc& m = d->mask;
  if (!m.dtype) return {};
  if (*m.dtype > DType::kBool) return Status::Error(Code::kInvalidArgument, "mask dtype is %d, expected f32, bf16, f16 or bool", static_cast<int>(*m.dtype));
  if (m.kv_len == -1) m.kv_len = d->kv_len;
  if (m.kv_len < 0 || m.kv_len > d->kv_len) {
    return Status::Error(Code::kInvalidArgument, "mask kv_len is %lld, expected -1 (all) or 0..kv_len = %lld", ll{m.kv_len}, ll{d->kv_len});
  }
  const Axes axes = {{{"batch", d->batch, m.batch}, {"head", d->q_heads, m.head}, {"query", d->q_len, m.query}, {"key", m.kv_len, m.key}}};
  if (Status s = CheckStrides("mask", axes, ElementBytes(*m.dtype)); !s.ok()) return s;
  if (IsEmpty(axes)) m.batch = m.head = m.query = m.key = 0;  // as in ResolveTensors
  return {};
}

Status ResolveTensors(AttentionDesc* d) {
  struct Input {
    const char* name;
    Strides* strides;
    int64_t heads, rows, dim, bytes;
    bool written;
  };
  Input tensors[] = {{"q", &d->q, d->q_heads, d->q_len, d->qk_dim, ElementBytes(d->dtype), false},
                     {"k", &d->k, d->kv_heads, d->kv_len, d->qk_dim, ElementBytes(d->dtype), false},
                     {"v", &d->v, d->kv_heads, d->kv_len, d->v_dim, ElementBytes(d->dtype), false},
                     {"out", &d->out, d->q_heads, d->q_len, d->v_dim, ElementBytes(*d->out_dtype), true},
                     {"lse", &d->lse_strides, d->q_heads, d->q_len, 1, 4, true}};
  if (!d->lse) d->lse_strides = {};  // what is not used is not checked
  d->lse_strides.element = 1;
  for (const Input& t : tensors) {
    if (Status s = FillStrides(t.name, t.strides, t.heads, t.rows, t.dim); !s.ok()) return s;
    const Axes axes = TensorAxes(*t.strides, d->batch, t.heads, t.rows, t.dim);
    if (Status s = CheckStrides(t.name, axes, t.bytes); !s.ok()) return s;
    // Nobody reads an empty tensor, and its strides may be anything: 0 keeps positions in it from overflowing.
    if (IsEmpty(axes)) *t.strides = {.batch = 0, .head = 0, .row = 0, .element = 1};
    if (!t.written) continue;
    if (Status s = CheckNoOverlap(t.name, axes); !s.ok()) return s;
  }
  return {};
}

}  // namespace

Result<AttentionDesc> Resolve(const AttentionDesc& desc) {
  AttentionDesc d = desc;
  if (Status s = ResolveExtents(d); !s.ok()) return s;
  if (Status s = ResolveTypes(&d); !s.ok()) return s;
  if (Status s = ResolveModifiers(&d); !s.ok()) return s;
  if (Status s = ResolveMask(&d); !s.ok()) return s;
  if (Status s = ResolveTensors(&d); !s.ok()) return s;
  return d;
}

Status CheckOperands(const AttentionDesc& d, const Operands& o) {
  const bool rows = d.batch > 0 && d.q_heads > 0 && d.q_len > 0, keys = rows && d.kv_len > 0;
  const std::pair<const char*, bool> missing[] = {{"q", o.q == nullptr && keys && d.qk_dim > 0},
                                                  {"k", o.k == nullptr && keys && d.qk_dim > 0},
                                                  {"v", o.v == nullptr && keys && d.v_dim > 0},
                                                  {"out", o.out == nullptr && rows && d.v_dim > 0},
                                                  {"mask", o.mask == nullptr && d.mask.dtype && keys && d.mask.kv_len > 0},
                                                  {"alibi", o.alibi == nullptr && d.alibi && rows},
                                                  {"sinks", o.sinks == nullptr && d.sinks && rows},
                                                  {"lse", o.lse == nullptr && d.lse && rows}};
  for (const auto& [name, is_missing] : missing) {
    if (is_missing) return Status::Error(Code::kInvalidArgument, "%s is null, but the description asks for it", name);
  }
  return {};
}

}  // namespace attenio
