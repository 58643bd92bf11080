// Rows that no polynomial serves, gathered and given to the executor.
#include <algorithm>

#include "approx/exact.h"
#include "approx/head.h"
#include "base/bits.h"

namespace attenio::approx {
namespace {

void CopyRows(const Head& h, const int64_t* index, int64_t count) {
  const RowView q = h.Queries();
  const int64_t dim = h.a.shape.qk_dim;
  WithFloatType(q.dtype, [&](auto* type) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    T* out = reinterpret_cast<T*>(h.base + h.a.at.gathered_q);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t c = 0; c < dim; ++c) out[r * dim + c] = q.Row<T>(index[r])[c * q.element];
    }
    // The last tile reads rows that nobody asked for.
    const int64_t tile = h.a.gathered->schedule.levels[0].queries;
    const int64_t end = std::min(RoundUp(count, tile), h.a.max_exact_rows);
    std::fill(out + count * dim, out + end * dim, T{});
  });
}

void WriteExactRows(const Head& h, const int64_t* index, int64_t count) {
  const float* from = h.Floats(h.a.at.gathered_out);
  const RowView out = h.Out(), lse = h.Lse();
  const int64_t dim = h.a.shape.v_dim;
  WithFloatType(out.dtype, [&](auto* type) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    for (int64_t r = 0; r < count; ++r) {
      T* target = const_cast<T*>(out.Row<T>(index[r]));
      for (int64_t c = 0; c < dim; ++c) FromFloat(from[r * dim + c], &target[c * out.element]);
      if (lse.base != nullptr) *const_cast<float*>(lse.Row<float>(index[r])) = h.Floats(h.a.at.gathered_lse)[r];
    }
  });
}

}  // namespace

bool RunExactRows(const Head& h) {
  int64_t* order = h.Integers(h.a.at.order);
  int64_t count = 0;
  for (int64_t r = 0; r < h.rows(); ++r) {
    if (h.RowClasses()[r] == kExactRow) order[count++] = r;  // the polynomial rows are done: their order is not needed
  }
  if (count > h.a.max_exact_rows) return false;
  if (count == 0) return true;
  CopyRows(h, order, count);
  const Operands operands{.q = h.base + h.a.at.gathered_q,
                          .k = h.operands.k,
                          .v = h.operands.v,
                          .out = h.base + h.a.at.gathered_out,
                          .lse = h.Floats(h.a.at.gathered_lse)};
  const int64_t tile = h.a.gathered->schedule.levels[0].queries;
  RunTiles(*h.a.gathered, operands, h.base + h.a.at.exact, CeilDiv(count, tile), h.parallel);
  WriteExactRows(h, order, count);
  if (h.report != nullptr) h.report->reason = "rows beyond the largest certifiable score bound";
  return true;
}

}  // namespace attenio::approx
