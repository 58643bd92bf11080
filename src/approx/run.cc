#include "approx/run.h"

#include <algorithm>
#include <cmath>

#include "approx/blockwise.h"
#include "approx/head.h"
#include "approx/parallel_for.h"
#include "attenio/io_poly.h"
#include "exec/workspace.h"

namespace attenio::approx {
namespace {

// A denominator smaller than this share of (1 - weight error) keys cannot happen within the certificate (Jensen, kDrift):
// such a row is computed exactly instead.
constexpr double kLeastDenominator = 0.5;
// Keys this many times farther out than the median are looked at separately; normal keys of any dimension are not.
constexpr double kFarNorm = 4;
// Sums of values times weights of at most e^14 stay inside f32.
constexpr double kLargestSum = 1e31;

// Sorts the rows by class: order[0 .. certified) are the polynomial rows, largest class first, so that panels share a degree.
int64_t OrderRows(const Head& h, const Normal& normal, const Outliers& o) {
  int64_t begin[kExactRow + 2] = {};
  uint8_t* row_class = h.RowClasses();
  const float* norm = h.Floats(h.a.at.query_norms);
  for (int64_t r = 0; r < h.rows(); ++r) {
    row_class[r] = ClassOf(h, normal, o, norm[r]);
    ++begin[row_class[r] + 1];
  }
  for (int c = 0; c <= kExactRow; ++c) begin[c + 1] += begin[c];
  const int64_t certified = begin[kExactRow];
  int64_t* order = h.Integers(h.a.at.order);
  for (int64_t r = 0; r < h.rows(); ++r) order[begin[row_class[r]]++] = r;
  return certified;
}

// Z over the keys of the step.
void BuildState(const Head& h, const Normal& normal, const Outliers& o, Range all) {
  const int64_t partials = PartialStates(h.a, normal.degree), floats = h.a.layout.floats(normal.degree);
  const int64_t keys = RoundUp(CeilDiv(all.size(), partials), kKeyPanel);
  const Range blocks{0, h.a.layout.monomials().blocks(normal.degree)};
  float* z = h.Floats(h.a.at.state);
  ParallelFor(h.parallel, partials, [&](int64_t i, int worker) {
    std::fill_n(z + i * floats, floats, 0.0f);
    AddKeyRange(h, normal, o, {std::min(all.begin + i * keys, all.end), std::min(all.begin + (i + 1) * keys, all.end)},
                blocks, z + i * floats, worker);
  });
  if (partials == 1) return;
  constexpr int64_t kPiece = 16384;
  ParallelFor(h.parallel, CeilDiv(floats, kPiece), [&](int64_t piece, int) {
    const int64_t begin = piece * kPiece, end = std::min(begin + kPiece, floats);
    for (int64_t i = 1; i < partials; ++i) {
      const float* part = z + i * floats;
      for (int64_t j = begin; j < end; ++j) z[j] += part[j];
    }
  });
}

void ApplyState(const Head& h, const Normal& normal, const Outliers& o, int64_t certified) {
  const int64_t* order = h.Integers(h.a.at.order);
  const float* z = h.Floats(h.a.at.state);
  ParallelFor(h.parallel, CeilDiv(certified, kQueryPanel), [&](int64_t panel, int worker) {
    const WorkerPiece w = h.Worker(worker);
    const int64_t first = panel * kQueryPanel, count = std::min(kQueryPanel, certified - first);
    EvaluateRows(h, normal, o, {order + first, static_cast<size_t>(count)}, z, w);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t row = order[first + r];
      const double share = kLeastDenominator * (1 - h.a.classes[h.RowClasses()[row]].p.error);
      const double least = share * static_cast<double>(h.keys() - o.count) * std::exp(-w.row_shift[r]);
      if (w.den[r] >= least && std::isfinite(w.den[r])) {
        WriteRow(h, *normal.findings, row, w.v + r * h.a.layout.columns(), w.den[r], w.row_shift[r]);
      } else {
        h.RowClasses()[row] = kExactRow;
      }
    }
  });
}

void RunDense(const Head& h, Findings* f, Choice choice) {
  Outliers o = FindOutliers(h, *f, choice.radius, choice.outliers);
  if (o.count > 0) {  // they pulled the centre: measure again about the mean of the others
    Recentre(h, f, o);
    choice = ChooseFor(h);
    if (choice.degree < 0) return RunHeadExactly(h, "too few rows can be certified for a gain");
    o = FindOutliers(h, *f, choice.radius, choice.outliers);
  }
  Normal normal{.degree = choice.degree, .radius = std::max(choice.radius, 1e-30), .key_drift = 0, .findings = f};
  normal.key_drift = Drift(h, *f, h.keys() - o.count) / normal.radius;
  GatherOutliers(h, normal, &o);
  const int64_t certified = OrderRows(h, normal, o);
  if (h.rows() - certified > h.a.max_exact_rows) return RunHeadExactly(h, "too few rows can be certified");
  // The steps that io/ predicts and simulates: regime R, the whole state resident. Rows that are not certified wait for the exact path.
  ForEachStep(PolySchedule{PolyRegime::kResident, normal.degree}, h.a.shape, [&](const Step& step) {
    if (step.op == Op::kState) {
      BuildState(h, normal, o, step.keys);
    } else {
      ApplyState(h, normal, o, std::min(certified, step.queries.size()));
    }
  });
  if (!RunExactRows(h)) return RunHeadExactly(h, "too few rows can be certified");
  if (h.report == nullptr) return;
  h.report->outlier_keys += o.count;
  h.report->features = std::max(h.report->features, h.a.layout.monomials().count(normal.degree));
  for (int64_t r = 0; r < h.rows(); ++r) ReportRow(h, r, h.RowClasses()[r]);
}

void RunGroups(const Head& h, const Findings& f) {
  if (!RunBlockwise(h, f)) return RunHeadExactly(h, "too few groups of keys can be skipped or approximated for a gain");
  if (!RunExactRows(h)) return RunHeadExactly(h, "too few rows can be certified");
  if (h.report == nullptr) return;
  for (int64_t r = 0; r < h.rows(); ++r) {
    if (h.RowClasses()[r] == kExactRow) ReportRow(h, r, kExactRow);
  }
}

void RunHead(const Head& h) {
  Findings f = Survey(h);
  if (!f.finite) return RunHeadExactly(h, "keys or values are not finite");
  if (f.range * static_cast<double>(h.keys()) > kLargestSum) return RunHeadExactly(h, "values are too large to add up");
  MeasureNorms(h, f, true);
  if (h.a.method == ApproxMethod::kGroups) return RunGroups(h, f);
  // A few keys far from all others move the mean by more than the others' spread: find the centre without them first.
  for (int pass = 0; pass < 2 && !h.a.desc.causal; ++pass) {
    const double far = kFarNorm * MedianKeyNorm(h);
    const Outliers o = FindOutliers(h, f, far, kMaxOutliers);
    if (o.count == 0 || o.count == kMaxOutliers) break;
    Recentre(h, &f, o);
  }
  const Choice choice = ChooseFor(h);
  if (choice.degree < 0) return RunHeadExactly(h, "too few rows can be certified for a gain");
  if (h.report != nullptr) h.report->predicted_gain = choice.exact_seconds / choice.seconds;
  if (!(std::abs(*h.a.desc.scale) * choice.radius < 1e30)) return RunHeadExactly(h, "scores are too large to scale");
  if (h.a.desc.causal) {
    RunCausal(h, f, choice);
  } else {
    RunDense(h, &f, choice);
  }
}

const void* Moved(const void* base, DType type, int64_t elements) {
  return base == nullptr ? nullptr : static_cast<const std::byte*>(base) + elements * ElementBytes(type);
}

Operands HeadOperands(const Approximation& a, const Operands& all, int64_t batch, int64_t kv_head) {
  const AttentionDesc& d = a.desc;
  const int64_t q_head = kv_head * a.shape.group();
  Operands o;
  o.q = Moved(all.q, d.dtype, batch * d.q.batch + q_head * d.q.head);
  o.k = Moved(all.k, d.dtype, batch * d.k.batch + kv_head * d.k.head);
  o.v = Moved(all.v, d.dtype, batch * d.v.batch + kv_head * d.v.head);
  o.out = const_cast<void*>(Moved(all.out, *d.out_dtype, batch * d.out.batch + q_head * d.out.head));
  if (d.lse) o.lse = all.lse + batch * d.lse_strides.batch + q_head * d.lse_strides.head;
  return o;
}

void StartReport(const Approximation& a, ApproxReport* report) {
  ApproxReport fresh;
  fresh.row_bound = report->row_bound;
  fresh.row_degree = report->row_degree;
  fresh.rows = a.shape.batch * a.shape.kv_heads * a.shape.rows();
  fresh.predicted_gain = 1;
  *report = fresh;
}

}  // namespace

void RunApproximation(const Approximation& a, const Operands& operands, std::byte* workspace, const Parallel& parallel,
                      ApproxReport* report) {
  if (report != nullptr) StartReport(a, report);
  if (a.all.has_value()) {
    RunAll(*a.all, operands, workspace, parallel);
    if (report == nullptr) return;
    report->exact_rows = report->rows;
    report->reason = a.exact_reason;
    if (report->row_bound != nullptr) std::fill_n(report->row_bound, report->rows, 0.0f);
    if (report->row_degree != nullptr) std::fill_n(report->row_degree, report->rows, int8_t{-1});
    return;
  }
  const auto at = reinterpret_cast<uintptr_t>(workspace);
  std::byte* base =
      workspace + (WorkspaceSizer::kAlignment - at % WorkspaceSizer::kAlignment) % WorkspaceSizer::kAlignment;
  for (int64_t b = 0; b < a.shape.batch; ++b) {
    for (int64_t k = 0; k < a.shape.kv_heads; ++k) {
      RunHead({.a = a,
               .operands = HeadOperands(a, operands, b, k),
               .base = base,
               .parallel = parallel,
               .report = report,
               .batch = b,
               .kv_head = k});
    }
  }
}

}  // namespace attenio::approx
