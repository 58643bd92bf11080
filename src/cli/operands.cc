#include "cli/operands.h"

#include <algorithm>
#include <utility>

#include "cli/error.h"

namespace attenio::cli {
namespace {

// (batch, heads, len, dim) of a tensor, whichever layout it has.
struct Extents {
  int64_t batch, heads, len, dim;
};

Extents ExtentsOf(const Tensor& tensor, int64_t heads, const char* what) {
  const std::vector<int64_t>& s = tensor.shape;
  if (tensor.rank() == 4) {
    if (heads != 0 && heads != s[1]) Refuse("{} has shape {}: {} heads were asked for", what, ShapeText(s), heads);
    return {s[0], s[1], s[2], s[3]};
  }
  if (tensor.rank() != 3) {
    Refuse("{} has shape {}; expected (batch, heads, len, dim), or (batch, len, heads * dim)", what, ShapeText(s));
  }
  if (heads <= 0) Refuse("{} has shape {}: 3-D tensors need the number of heads", what, ShapeText(s));
  if (s[2] % heads != 0) Refuse("{} has shape {}: {} is not a multiple of {} heads", what, ShapeText(s), s[2], heads);
  return {s[0], heads, s[1], s[2] / heads};
}

Strides StridesOf(const Tensor& tensor, const Extents& e) {
  if (tensor.rank() == 4) return {};
  return {.batch = e.len * e.heads * e.dim, .head = e.dim, .row = e.heads * e.dim, .element = 1};
}

}  // namespace

Operands Problem::operands() {
  Operands o;
  o.q = q.bytes.data();
  o.k = k.bytes.data();
  o.v = v.bytes.data();
  o.out = out.bytes.data();
  if (mask) o.mask = mask->bytes.data();
  if (sinks) o.sinks = sinks->data<float>();
  if (alibi) o.alibi = alibi->data<float>();
  if (lse) o.lse = lse->data<float>();
  return o;
}

void Problem::Bind() {
  desc.offsets = offsets.empty() ? nullptr : offsets.data();
  desc.kv_lens = kv_lens.empty() ? nullptr : kv_lens.data();
}

void DescribeQkv(Problem* problem, int64_t q_heads, int64_t kv_heads) {
  const Tensor &q = problem->q, &k = problem->k, &v = problem->v;
  const Extents eq = ExtentsOf(q, q_heads, "q"), ek = ExtentsOf(k, kv_heads, "k"), ev = ExtentsOf(v, kv_heads, "v");
  if (eq.batch != ek.batch || ek.batch != ev.batch || ek.heads != ev.heads || ek.len != ev.len || eq.dim != ek.dim) {
    Refuse("q {}, k {} and v {} do not fit together: batch must be the same, head dim the same in q and k, heads and length "
           "the same in k and v",
           ShapeText(q.shape), ShapeText(k.shape), ShapeText(v.shape));
  }
  if (q.type != k.type || q.type != v.type) {
    Refuse("q, k and v hold {}, {} and {}; they must be the same type", Name(q.type), Name(k.type), Name(v.type));
  }
  const std::optional<DType> type = ToDType(q.type);
  if (!type || *type == DType::kBool) Refuse("q, k and v hold {}; expected f32, bf16 or f16", Name(q.type));
  AttentionDesc& desc = problem->desc;
  desc.batch = eq.batch;
  desc.q_heads = eq.heads;
  desc.kv_heads = ek.heads;
  desc.q_len = eq.len;
  desc.kv_len = ek.len;
  desc.qk_dim = eq.dim;
  desc.v_dim = ev.dim;
  desc.dtype = *type;
  desc.q = StridesOf(q, eq);
  desc.k = StridesOf(k, ek);
  desc.v = StridesOf(v, ev);
  desc.out = StridesOf(q, {eq.batch, eq.heads, eq.len, ev.dim});
}

void DescribeMask(Problem* problem, Tensor mask) {
  AttentionDesc& desc = problem->desc;
  const std::optional<DType> type = ToDType(mask.type);
  if (!type) Refuse("the mask holds {}; expected bool, f32, bf16 or f16", Name(mask.type));
  if (mask.rank() < 1 || mask.rank() > 4) {
    Refuse("the mask has shape {}; expected 1 to 4 dimensions", ShapeText(mask.shape));
  }
  const int64_t full[4] = {desc.batch, desc.q_heads, desc.q_len, desc.kv_len};
  int64_t strides[4] = {0, 0, 0, 0};
  int64_t stride = 1;
  desc.mask.kv_len = -1;
  for (int64_t i = mask.rank() - 1, d = 3; i >= 0; --i, --d) {
    const int64_t size = mask.shape[static_cast<size_t>(i)];
    const bool shorter = d == 3 && size < full[3];
    if (size != full[d] && size != 1 && !shorter) {
      Refuse("the mask has shape {}, which does not broadcast to (batch, heads, queries, keys) = ({}, {}, {}, {})",
             ShapeText(mask.shape), full[0], full[1], full[2], full[3]);
    }
    if (size != 1) strides[d] = stride;
    if (shorter && size != 1) desc.mask.kv_len = size;
    stride *= size;
  }
  desc.mask.dtype = type;
  desc.mask.batch = strides[0];
  desc.mask.head = strides[1];
  desc.mask.query = strides[2];
  desc.mask.key = strides[3];
  problem->mask = std::move(mask);
}

Tensor PerHead(const Tensor& tensor, int64_t heads, const char* what) {
  const std::optional<DType> type = ToDType(tensor.type);
  const bool number = tensor.type == FileType::kF64 || (type && *type != DType::kBool);
  if (!number || tensor.elements() != heads) {
    Refuse("{} has shape {} of {}; expected one floating-point value for each of the {} query heads", what,
           ShapeText(tensor.shape), Name(tensor.type), heads);
  }
  return Convert(tensor, FileType::kF32);
}

void AllocateOutputs(Problem* problem, DType type) {
  AttentionDesc& desc = problem->desc;
  std::vector<int64_t> shape = problem->q.shape;
  shape.back() = problem->q.rank() == 4 ? desc.v_dim : desc.q_heads * desc.v_dim;
  desc.out_dtype = type;
  problem->out = MakeTensor(ToFileType(type), shape);
  if (desc.lse) problem->lse = MakeTensor(FileType::kF32, {desc.batch, desc.q_heads, desc.q_len});
}

}  // namespace attenio::cli
