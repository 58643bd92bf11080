// Planning: what can be certified and what it costs.
#include <algorithm>
#include <climits>
#include <cmath>

#include "approx/cluster.h"
#include "approx/exact.h"
#include "approx/run.h"
#include "exec/shape.h"

namespace attenio::approx {
namespace {

// States larger than this in total lose more to memory traffic than their threads gain.
constexpr int64_t kPartialBytes = int64_t{64} << 20;
constexpr int64_t kMaxPartials = 64;
// Queries of a causal chunk: 8 panels; the diagonal costs half a chunk of exact keys per row, less than a tenth of the state's
// products at 64 dims and degree 2.
constexpr int64_t kChunkPanels = 8;
// Fraction of its peak that the exact kernel reaches.
constexpr double kExactFraction = 0.85;
constexpr double kUnknownFlops = 5e10;
// bf16 products over f32 ones where the machine has not been calibrated: VDPBF16PS makes twice as many an instruction.
constexpr double kBf16Products = 2;
// Fewer keys make fewer than 8 groups: nothing to choose from.
constexpr int64_t kLeastGroupedKeys = 8 * kGroupKeys;

const char* WhyExact(const AttentionDesc& d) {
  if (d.softcap > 0) return "softcap is not certifiable";
  if (d.alibi) return "ALiBi is not certifiable";
  if (d.mask.dtype.has_value()) return "masks are not certifiable";
  if (d.sinks) return "sinks are not certifiable";
  if (d.window_left != kUnbounded || (d.window_right != kUnbounded && !d.causal)) return "windows are not certifiable";
  if (d.causal && d.window_right > 0) return "windows are not certifiable";
  if (d.kv_lens != nullptr || d.offsets != nullptr) return "per-sequence lengths run exactly";
  if (d.qk_dim < 1 || d.v_dim < 1 || d.kv_len < 1 || d.q_len < 1 || d.q_heads < 1 || d.batch < 1)
    return "nothing to approximate";
  if (d.qk_dim > kMaxDim || d.v_dim > kMaxDim)
    return "qk_dim or v_dim is above 32768: no state has so many rows or columns";
  if (d.kv_len > kMaxRows || d.q_heads / d.kv_heads > kMaxRows / d.q_len)
    return "more than 2^40 keys or query rows run exactly";
  return "";
}

double ExactFlops(const Machine& machine, const Problem& exact) {
  const double fma = machine.fma_flops > 0 ? machine.fma_flops : kUnknownFlops;
  if (exact.kernel->probability_type == DType::kF32) return kExactFraction * fma;
  const double products = std::max(machine.dot_bf16_flops, machine.tensor_flops);
  return kExactFraction * (products > 0 ? products : kBf16Products * fma);
}

AttentionDesc HeadDesc(const AttentionDesc& desc) {
  AttentionDesc d = desc;
  d.batch = 1;
  d.q_heads = desc.q_heads / desc.kv_heads;
  d.kv_heads = 1;
  return d;
}

Strides Contiguous(int64_t rows, int64_t dim) {
  return {.batch = rows * dim, .head = rows * dim, .row = dim, .element = 1};
}

AttentionDesc GatheredDesc(const AttentionDesc& desc, int64_t rows) {
  AttentionDesc d = HeadDesc(desc);
  d.q_heads = 1;
  d.q_len = rows;
  d.causal = false;
  d.out_dtype = DType::kF32;
  d.lse = true;
  d.q = Contiguous(rows, d.qk_dim);
  d.out = Contiguous(rows, d.v_dim);
  d.lse_strides = {.batch = rows, .head = rows, .row = 1, .element = 1};
  return d;
}

AttentionDesc DiagonalDesc(const AttentionDesc& desc, int64_t chunk) {
  AttentionDesc d = HeadDesc(desc);
  const int64_t group = d.q_heads;
  d.q_len = d.kv_len = chunk;
  d.causal = true;
  d.offset = 0;
  d.out_dtype = DType::kF32;
  d.lse = true;
  // Query by query, the heads of the group side by side: row r of the chunk is row r of the result.
  d.out = {.batch = chunk * group * d.v_dim, .head = d.v_dim, .row = group * d.v_dim, .element = 1};
  d.lse_strides = {.batch = chunk * group, .head = 1, .row = group, .element = 1};
  return d;
}

Blocking BlockingOf(const Approximation& a, int degree) {
  const int64_t partials = PartialStates(a, degree);
  const int64_t keys = CeilDiv(a.shape.kv_len, partials);
  return {.key_panel = kKeyPanel,
          // A causal chunk ends a panel early.
          .panels = CeilDiv(keys, kKeyPanel) + (a.chunk > 0 ? CeilDiv(keys, a.chunk) : 0),
          .partials = partials,
          .feature_block = kFeatureBlock,
          .blocks = a.layout.monomials().blocks(degree)};
}

// Degrees whose features fit; the layout covers the largest that a class uses.
void PlanClasses(const ApproxOptions& options, Approximation* a) {
  const Shape& s = a->shape;
  int degree = 0;
  while (degree < options.max_degree) {
    const int64_t r = FeatureCount(s.qk_dim, degree + 1);
    if (r > kMaxFeatures || (options.mode == ApproxMode::kFastest && r > s.kv_len)) break;
    ++degree;
  }
  a->layout = StateLayout(s.qk_dim, s.v_dim, degree);
  std::vector<double> unit;
  for (int g = 0; g <= degree; ++g) unit.push_back(RoundingUnits(BlockingOf(*a, g), g) * 0x1p-24);
  a->classes = ScoreClasses(options.max_error, unit);
  const int largest = a->classes.empty() ? 0 : a->classes.back().p.degree;
  if (largest < degree) a->layout = StateLayout(s.qk_dim, s.v_dim, largest);
}

Status PlanExactParts(const ApproxOptions& options, const Machine& machine, Approximation* a) {
  const AttentionDesc head = HeadDesc(a->desc);
  ExactOptions exact{.machine = &machine, .kernel = options.kernel, .workers = a->workers};
  if (a->desc.causal) exact.tile_rows = a->chunk * head.q_heads;
  Result<Problem> p = PlanExact(head, exact);
  if (!p.ok()) return p.status();
  a->head = std::move(*p);
  // Half of the rows at most: with more, all of them run exactly.
  a->max_exact_rows = a->desc.causal ? 0 : std::max<int64_t>(kQueryPanel, a->shape.rows() / 2);
  if (a->desc.causal) {
    exact.packing = Packing::kBlock;  // a tile packs for itself: any worker may take it without a phase before
    exact.tile_rows = 4 * kQueryPanel / 3;
    p = PlanExact(DiagonalDesc(a->desc, a->chunk), exact);
    if (!p.ok()) return p.status();
    a->diagonal = std::move(*p);
    return {};
  }
  exact.tile_rows = 4 * kQueryPanel / 3;
  p = PlanExact(GatheredDesc(a->desc, a->max_exact_rows), exact);
  if (!p.ok()) return p.status();
  a->gathered = std::move(*p);
  return {};
}

void PlanCosts(const Machine& machine, Approximation* a) {
  CostInputs inputs{
      .keys = a->shape.kv_len,
      .keys_per_row = static_cast<double>(a->head->shape.AllowedPairs()) / static_cast<double>(a->shape.rows()),
      .qk_dim = a->shape.qk_dim,
      .v_dim = a->shape.v_dim,
      .fma_flops = machine.fma_flops > 0 ? machine.fma_flops : kUnknownFlops,
      .exact_flops = ExactFlops(machine, *a->head)};
  for (int g = 0; g <= a->layout.monomials().degree(); ++g) inputs.features.push_back(a->layout.monomials().count(g));
  a->costs = PredictCosts(inputs);
  if (a->chunk > 0) {
    const double keys = static_cast<double>(a->chunk) / 2;
    for (double& row : a->costs.row) row += a->costs.exact_row * keys / inputs.keys_per_row;
  }
}

// The polynomial of a group must cost well below the group's keys.
void PlanGroups(Approximation* a) {
  const Shape& s = a->shape;
  const double exact = static_cast<double>(kGroupKeys * (s.qk_dim + s.v_dim));
  const int64_t columns = RoundUp(s.v_dim, kColumnQuantum);
  a->group_degree = 1;
  while (a->group_degree < 3 &&
         2.0 * static_cast<double>(FeatureCount(s.qk_dim, a->group_degree + 1) * columns) <= exact)
    ++a->group_degree;
  a->layout = StateLayout(s.qk_dim, s.v_dim, a->group_degree);
  // Gathered panels of a few rows reach less of the peak with the small products of a polynomial.
  a->group_poly_cost = 1.5 * static_cast<double>(a->layout.monomials().count() * columns);
  a->group_exact_cost = static_cast<double>(s.kv_len) / static_cast<double>(GroupCount(s.kv_len)) *
                        static_cast<double>(s.qk_dim + s.v_dim);
  const double unit = (static_cast<double>(4 * kGroupKeys) + 64) * 0x1p-24;
  for (double bound = 1e-3; bound < 4; bound *= 1.25) {
    const ExpPolynomial p = MinimaxExp(bound, a->group_degree);
    const double error = p.error + CancellationError(unit, bound);
    if (error > 0.9) break;
    a->group_classes.push_back({p, error});
  }
}

Status PlanAllExact(const ApproxOptions& options, const Machine& machine, const char* reason, Approximation* a) {
  a->exact_reason = reason;
  Result<Problem> p = PlanExact(a->desc, {.machine = &machine, .kernel = options.kernel, .workers = a->workers});
  if (!p.ok()) return p.status();
  a->all = std::move(*p);
  a->at.bytes = a->all->workspace_bytes;
  return {};
}

// Whether some choice of degree beats exact attention if every row were certified at it.
bool CanWin(const Approximation& a) {
  const Costs& c = a.costs;
  const double rows = static_cast<double>(a.shape.rows()), keys = static_cast<double>(a.shape.kv_len);
  const double cheapest = c.fixed + keys * c.key[0] + rows * c.row[0];
  return cheapest < rows * c.exact_row;
}

}  // namespace

int64_t PartialStates(const Approximation& a, int degree) {
  if (a.desc.causal) return 1;
  const int64_t by_keys = CeilDiv(a.shape.kv_len, kSurveyKeys);
  const int64_t by_memory = kPartialBytes / (a.layout.floats(degree) * 4);
  return std::clamp<int64_t>(std::min(by_keys, by_memory), 1, kMaxPartials);
}

Result<Approximation> PlanApproximation(const AttentionDesc& desc, const ApproxOptions& options,
                                        const Machine& machine) {
  Approximation a;
  a.desc = desc;
  a.mode = options.mode;
  a.method = options.method;
  a.max_error = options.max_error;
  a.workers = options.workers > 0 ? options.workers : static_cast<int>(std::clamp<int64_t>(machine.cores, 1, INT_MAX));
  a.shape = ShapeOf(desc);
  a.shape.left = kUnbounded;  // windows run exactly
  a.shape.right = desc.causal ? 0 : kUnbounded;
  const auto exactly = [&](const char* reason) -> Result<Approximation> {
    if (Status s = PlanAllExact(options, machine, reason, &a); !s.ok()) return s;
    return std::move(a);
  };
  if (const char* reason = WhyExact(desc); *reason != '\0') return exactly(reason);
  if (desc.causal) {
    a.chunk = kChunkPanels * kQueryPanel;
    if (desc.q_len < 2 * a.chunk) return exactly("too few queries for causal prefix states");
  }
  if (options.method == ApproxMethod::kGroups) {
    if (desc.causal) return exactly("groups of keys do not take a causal mask");
    if (options.mode == ApproxMode::kFastest && a.shape.kv_len < kLeastGroupedKeys)
      return exactly("too few keys to group");
    PlanGroups(&a);
    if (Status s = PlanExactParts(options, machine, &a); !s.ok()) return s;
    if (Status s = LayOutWorkspace(&a); !s.ok()) return s;
    return a;
  }
  PlanClasses(options, &a);
  if (a.classes.empty()) return exactly("no polynomial meets max_error");
  if (Status s = PlanExactParts(options, machine, &a); !s.ok()) return s;
  PlanCosts(machine, &a);
  if (options.mode == ApproxMode::kFastest && !CanWin(a)) return exactly("exact attention is predicted to be faster");
  if (Status s = LayOutWorkspace(&a); !s.ok()) return s;
  return a;
}

}  // namespace attenio::approx
