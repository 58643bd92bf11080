#include "cli/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/oracle.h"
#include "api/validate.h"
#include "base/bits.h"

namespace attenio::cli {
namespace {

double LoadAs(const void* base, DType type, int64_t element) {
  return WithFloatType(type, [&](auto* t) { return double{ToFloat(static_cast<decltype(t)>(base)[element])}; });
}

struct Element {
  const char* tensor;
  RowIndex row;
  int64_t c;  // -1: none
};

void Update(const Element& e, double got, double want, double bound, Verdict* verdict) {
  const double ratio = ErrorOverBound(got, want, bound);
  if (ratio < verdict->worst || (ratio == verdict->worst && !verdict->where.empty())) return;
  verdict->worst = ratio;
  verdict->error = std::abs(got - want);
  verdict->bound = bound;
  const std::string last = e.c >= 0 ? fmt::format(",{}", e.c) : "";
  verdict->where = fmt::format("{}[{},{},{}{}] is {:.9g}, expected {:.9g} within {:.3g}", e.tensor, e.row.batch,
                               e.row.head, e.row.query, last, got, want, bound);
}

// The weights' sum has the relative error of the scores, hence the logarithm has it absolutely.
double LseBound(const OracleRow& row, DType probability_type) {
  const double unit = UnitRoundoff(DType::kF32);
  const double probabilities = probability_type == DType::kF32 ? 0 : 2 * UnitRoundoff(probability_type);
  return unit * std::abs(row.lse) + probabilities + (16 * (1 + row.score_bound) + SumDrift(row.allowed)) * unit;
}

}  // namespace

double ErrorOverBound(double got, double want, double bound) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : kInfinity;
  if (got == want) return 0;
  const double ratio = std::abs(got - want) / bound;
  return std::isfinite(want) && !std::isnan(ratio) ? ratio : kInfinity;
}

DType ProbabilityType(std::string_view kernel) {
  for (const KernelInfo& info : Kernels()) {
    if (info.name == kernel) return info.probability_type;
  }
  return DType::kF32;
}

void VerifyRow(const AttentionDesc& desc, const Operands& operands, const RowIndex& row, DType probability_type,
               Verdict* verdict) {
  const Result<AttentionDesc> resolved = Resolve(desc);
  if (!resolved.ok()) return;  // such a description never got as far as a result
  const OracleRow want = ReferenceRow(*resolved, operands, row.batch, row.head, row.query);
  const Strides& s = resolved->out;
  const DType type = *resolved->out_dtype;
  const int64_t begin = row.batch * s.batch + row.head * s.head + row.query * s.row;
  for (int64_t c = 0; c < resolved->v_dim; ++c) {
    const double got = LoadAs(operands.out, type, begin + c * s.element);
    Update({"out", row, c}, got, want.out[static_cast<size_t>(c)], ErrorBound(want, c, type, probability_type),
           verdict);
  }
  if (resolved->lse) {
    const Strides& l = resolved->lse_strides;
    const double got = double{operands.lse[row.batch * l.batch + row.head * l.head + row.query * l.row]};
    Update({"lse", row, -1}, got, want.lse, LseBound(want, probability_type), verdict);
  }
  ++verdict->rows;
}

void VerifyRowWithin(const AttentionDesc& desc, const Operands& operands, const RowIndex& row,
                     const std::vector<double>& allowed, Verdict* verdict) {
  const Result<AttentionDesc> resolved = Resolve(desc);
  if (!resolved.ok()) return;
  const OracleRow want = ReferenceRow(*resolved, operands, row.batch, row.head, row.query);
  const Strides& s = resolved->out;
  const DType type = *resolved->out_dtype;
  const int64_t begin = row.batch * s.batch + row.head * s.head + row.query * s.row;
  for (int64_t c = 0; c < resolved->v_dim; ++c) {
    const double got = LoadAs(operands.out, type, begin + c * s.element), expected = want.out[static_cast<size_t>(c)];
    const double rounding = (UnitRoundoff(type) + 2 * UnitRoundoff(DType::kF32)) * std::abs(expected) + 1e-38;
    Update({"out", row, c}, got, expected, allowed[static_cast<size_t>(c)] + rounding, verdict);
  }
  ++verdict->rows;
}

std::vector<RowIndex> ChooseRows(const AttentionDesc& desc, double budget, std::mt19937_64* random) {
  const int64_t rows = desc.batch * desc.q_heads * desc.q_len;
  const double per_row = static_cast<double>(desc.kv_len + 1) * static_cast<double>(desc.qk_dim + desc.v_dim + 1);
  const auto at = [&](int64_t r) {
    return RowIndex{r / (desc.q_heads * desc.q_len), r / desc.q_len % desc.q_heads, r % desc.q_len};
  };
  std::vector<RowIndex> chosen;
  if (per_row * static_cast<double>(rows) <= budget || rows <= 4) {
    for (int64_t r = 0; r < rows; ++r) chosen.push_back(at(r));
    return chosen;
  }
  const int64_t count = std::max<int64_t>(4, static_cast<int64_t>(budget / per_row));
  chosen = {at(0), at(rows - 1)};
  while (static_cast<int64_t>(chosen.size()) < count) {
    chosen.push_back(at(static_cast<int64_t>((*random)() % static_cast<uint64_t>(rows))));
  }
  return chosen;
}

}  // namespace attenio::cli
