#include "cli/io_poly.h"

#include <fmt/format.h>

#include <algorithm>

#include "attenio/io_poly.h"
#include "cli/command.h"

namespace attenio::cli {
namespace {

constexpr PolyRegime kRegimes[] = {PolyRegime::kResident, PolyRegime::kColumns, PolyRegime::kBlocks,
                                   PolyRegime::kTensor};

double Real(int64_t x) { return static_cast<double>(x); }

int64_t InstanceBytes(const MemoryLevel& level) { return level.bytes / std::max<int64_t>(1, level.sharers); }

// Parts of the state that the simulation would walk through; every one reads V once.
double Parts(const Traffic& t, const PolySchedule& schedule, const Shape& s) {
  const double columns = schedule.columns > 0 ? Real((s.v_dim + schedule.columns) / schedule.columns) : 1;
  return t.v / std::max(1.0, Real(s.kv_len) * Real(s.v_dim)) * columns;
}

}  // namespace

std::vector<IoRow> PolyRows(const std::vector<int>& degrees, const MemoryLevel& level, const IoProblem& p,
                            bool simulate) {
  std::vector<IoRow> rows;
  const double words = Real(InstanceBytes(level)) / Real(p.options.out_bytes);
  for (const int degree : degrees) {
    for (const PolyRegime regime : kRegimes) {
      const double start = Seconds();
      const Result<PolySchedule> schedule = SolvePoly(p.shape, degree, words, regime);
      const double us = 1e6 * (Seconds() - start);
      if (!schedule.ok()) continue;
      const Traffic moved = Predict(*schedule, p.shape);
      IoRow row;
      row.level = level.name;
      row.dataflow = fmt::format("poly {} degree {}", Name(regime), degree);
      row.schedule = schedule->ToString();
      row.fast_bytes = InstanceBytes(level);
      row.predicted = p.heads() * Bytes(moved, p.options);
      constexpr double kMostParts = 1e5;  // about a second
      if (simulate && Parts(moved, *schedule, p.shape) <= kMostParts) {
        const Result<Traffic> walked = SimulateScratchpad(*schedule, p.shape, words);
        Require(walked.ok() ? Status() : walked.status());
        row.simulated = p.heads() * Bytes(*walked, p.options);
      }
      // Tiles of monomials share coordinates, which the bound for dense features does not know.
      const PolyBoundKind kind = regime == PolyRegime::kTensor ? PolyBoundKind::kCompulsory : PolyBoundKind::kDense;
      row.bound_kind = Name(kind);
      const double element = Real(std::min(p.options.packed_bytes, p.options.out_bytes));
      row.bound = p.heads() * element * PolyLowerBound(p.shape, degree, Real(row.fast_bytes) / element, kind);
      row.solve_us = us;
      rows.push_back(row);
    }
  }
  return rows;
}

void PrintPolyBreakEven(const std::vector<int>& degrees, const IoProblem& p) {
  for (const int degree : degrees) {
    const int64_t features = FeatureCount(p.shape.qk_dim, degree);
    const double state = Real(features) * Real(p.shape.v_dim + 1) * Real(p.options.out_bytes);
    fmt::print("degree {}: {} features, state {:.4g} MB a head; less arithmetic than exact from {:.0f} queries\n",
               degree, features, state / 1e6, FlopBreakEven(p.shape.qk_dim, p.shape.v_dim, degree, p.shape.right == 0));
  }
}

}  // namespace attenio::cli
