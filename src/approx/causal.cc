// Causal attention by prefix states: a chunk of queries takes the keys before it from the state and its own keys exactly.
#include <algorithm>
#include <cmath>

#include "approx/exact.h"
#include "approx/head.h"
#include "approx/parallel_for.h"
#include "base/bits.h"

namespace attenio::approx {
namespace {

// Feature blocks of one task: every task transposes the keys for itself, which costs 5 % of a task of 8 blocks at 64 dims.
constexpr int64_t kBlocksPerTask = 8;

struct Chunk {
  Range queries;
  int64_t prefix = 0;    // keys before it, the state's
  bool regular = false;  // a whole chunk with all of its own keys
};

Chunk ChunkAt(const Head& h, int64_t i) {
  const int64_t size = h.a.chunk;
  Chunk c{.queries = {i * size, std::min((i + 1) * size, h.a.shape.q_len)}};
  c.prefix = std::clamp<int64_t>(c.queries.begin + h.a.shape.offset, 0, h.keys());
  c.regular =
      c.queries.size() == size && c.queries.begin + h.a.shape.offset >= kKeyPanel && c.prefix + size <= h.keys();
  return c;
}

Range RowsOf(const Head& h, const Chunk& c) {
  return {c.queries.begin * h.a.shape.group(), c.queries.end * h.a.shape.group()};
}

// Sum of the keys [begin, end) onto sum.
void AddToSum(const Head& h, Range keys, double* sum) {
  const RowView k = h.Keys();
  WithFloatType(k.dtype, [&](auto* type) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      for (int64_t c = 0; c < h.a.shape.qk_dim; ++c) sum[c] += ToFloat(k.Row<T>(j)[c * k.element]);
    }
  });
}

bool CertifyChunk(const Head& h, const Normal& normal, Range rows) {
  const float* norm = h.Floats(h.a.at.query_norms);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    h.RowClasses()[r] = ClassOf(h, normal, {}, norm[r]);
    if (h.RowClasses()[r] == kExactRow) return false;
  }
  return true;
}

Operands DiagonalOperands(const Head& h, const Chunk& c) {
  const AttentionDesc& d = h.a.desc;
  const int64_t bytes = ElementBytes(d.dtype);
  const auto at = [bytes](const void* base, int64_t element) {
    return static_cast<const std::byte*>(base) + element * bytes;
  };
  return {.q = at(h.operands.q, c.queries.begin * d.q.row),
          .k = at(h.operands.k, c.prefix * d.k.row),
          .v = at(h.operands.v, c.prefix * d.v.row),
          .out = h.Floats(h.a.at.gathered_out),
          .lse = h.Floats(h.a.at.gathered_lse)};
}

// Brings the state from the keys [0, known) to [0, c.prefix), and computes the chunk against its own keys.
void AdvanceAndDiagonal(const Head& h, const Normal& normal, const Chunk& c, int64_t known) {
  const int64_t blocks = h.a.layout.monomials().blocks(normal.degree);
  const int64_t state_tasks = CeilDiv(blocks, kBlocksPerTask);
  const Operands diagonal = DiagonalOperands(h, c);
  ParallelFor(h.parallel, state_tasks + h.a.diagonal->tiles, [&](int64_t task, int worker) {
    if (task < state_tasks) {
      const Range mine{task * kBlocksPerTask, std::min((task + 1) * kBlocksPerTask, blocks)};
      AddKeyRange(h, normal, {}, {known, c.prefix}, mine, h.Floats(h.a.at.state), worker);
    } else {
      RunTask(*h.a.diagonal, diagonal, h.base + h.a.at.diagonal, 0, task - state_tasks, worker);
    }
  });
}

// The prefix from the state, merged with the diagonal by its log-sum-exp.
void FinishChunk(const Head& h, const Normal& normal, Range rows) {
  const int64_t columns = h.a.layout.columns(), v_dim = h.a.shape.v_dim;
  ParallelFor(h.parallel, CeilDiv(rows.size(), kQueryPanel), [&](int64_t panel, int worker) {
    const WorkerPiece w = h.Worker(worker);
    const int64_t first = rows.begin + panel * kQueryPanel, count = std::min(kQueryPanel, rows.end - first);
    for (int64_t r = 0; r < count; ++r) w.index[r] = first + r;
    EvaluateRows(h, normal, {}, {w.index, static_cast<size_t>(count)}, h.Floats(h.a.at.state), w);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t local = first + r - rows.begin;
      const float* own = h.Floats(h.a.at.gathered_out) + local * v_dim;
      const double own_score = h.Floats(h.a.at.gathered_lse)[local] - CentreScore(h, *normal.findings, first + r);
      const double shift = std::max(0.0, own_score);
      const double own_weight = std::exp(own_score - shift), factor = std::exp(-shift);
      float* numerator = w.v + r * columns;
      for (int64_t c = 0; c < v_dim; ++c) {
        numerator[c] = static_cast<float>(numerator[c] * factor + own_weight * (own[c] - normal.findings->middle[c]));
      }
      WriteRow(h, *normal.findings, first + r, numerator, w.den[r] * factor + own_weight, shift);
    }
  });
}

bool CheaperExactly(const Head& h, const Chunk& c, int degree) {
  if (h.a.mode == ApproxMode::kPolynomial) return false;
  const double pair =
      h.a.costs.exact_row * static_cast<double>(h.rows()) / static_cast<double>(h.a.head->shape.AllowedPairs());
  return pair * static_cast<double>(c.prefix + h.a.chunk / 2) < h.a.costs.row[degree];
}

void RunExactChunks(const Head& h, const uint8_t* exact, int64_t chunks) {
  const Problem& p = *h.a.head;
  std::byte* workspace = h.base + h.a.at.exact;
  const int64_t last = NumPhases(p) - 1;
  for (int64_t phase = 0; phase < last; ++phase) {
    ParallelFor(h.parallel, NumTasks(p, phase),
                [&](int64_t i, int w) { RunTask(p, h.operands, workspace, phase, i, w); });
  }
  ParallelFor(h.parallel, chunks, [&](int64_t i, int w) {
    if (exact[chunks - 1 - i] != 0)
      RunTask(p, h.operands, workspace, last, i, w);  // the executor counts tiles from the end
  });
}

}  // namespace

void RunCausal(const Head& h, const Findings& f, const Choice& choice) {
  Normal normal{.degree = choice.degree, .radius = std::max(choice.radius, 1e-30), .key_drift = 0, .findings = &f};
  const int64_t chunks = CeilDiv(h.a.shape.q_len, h.a.chunk);
  // `order` is not needed here: it holds a flag per chunk.
  uint8_t* exact = reinterpret_cast<uint8_t*>(h.Integers(h.a.at.order));
  std::fill_n(h.Floats(h.a.at.state), h.a.layout.floats(normal.degree), 0.0f);
  std::fill_n(f.kept_sum, h.a.shape.qk_dim, 0.0);
  int64_t known = 0, exact_chunks = 0;
  for (int64_t i = 0; i < chunks; ++i) {
    const Chunk c = ChunkAt(h, i);
    exact[i] = !c.regular || CheaperExactly(h, c, normal.degree);
    if (exact[i] == 0) {
      AddToSum(h, {known, c.prefix}, f.kept_sum);
      normal.key_drift = Drift(h, f, c.prefix) / normal.radius;
      // Once a chunk is certified or not, the keys before it are in the sum and must be in the state.
      const bool certified = CertifyChunk(h, normal, RowsOf(h, c));
      AdvanceAndDiagonal(h, normal, c, known);
      known = c.prefix;
      exact[i] = !certified;
      if (certified) FinishChunk(h, normal, RowsOf(h, c));
    }
    if (exact[i] != 0) {
      ++exact_chunks;
      const Range rows = RowsOf(h, c);
      std::fill(h.RowClasses() + rows.begin, h.RowClasses() + rows.end, kExactRow);
    }
  }
  if (exact_chunks > 0) RunExactChunks(h, exact, chunks);
  if (h.report == nullptr) return;
  if (exact_chunks > 0)
    h.report->reason = "chunks with few keys before them, or with rows beyond the certifiable bound";
  h.report->features = std::max(h.report->features, h.a.layout.monomials().count(normal.degree));
  for (int64_t r = 0; r < h.rows(); ++r) ReportRow(h, r, h.RowClasses()[r]);
}

}  // namespace attenio::approx
