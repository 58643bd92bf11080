// Where everything of an approximate call lives in the caller's workspace.
#include <algorithm>

#include "approx/blockwise.h"
#include "approx/cluster.h"
#include "approx/run.h"
#include "exec/workspace.h"

namespace attenio::approx {
namespace {

void LayOutGroups(Approximation* a, WorkspaceSizer* all) {
  const Shape& s = a->shape;
  const int64_t columns = a->layout.columns(), slots = s.kv_len + kMaxGroups * kColumnQuantum;
  ApproxLayout& at = a->at;
  at.group_of = all->Take(RoundUp(s.kv_len, kQueryPanel), 1);
  at.group_centres = all->Take(s.qk_dim * kMaxGroups, 4);
  at.group_radius = all->Take(kMaxGroups, 4);
  at.group_begin = all->Take(2 * (kMaxGroups + 1), 8);
  at.group_means = all->Take(kMaxGroups * columns, 4);
  at.group_sums = all->Take(kMaxGroups * s.qk_dim, 8);
  at.group_sample = all->Take(kSampleRows * s.qk_dim, 4);
  at.group_keys = all->Take(slots * s.qk_dim, 4);
  at.group_values = all->Take(slots * columns, 4);
  at.group_tallies = all->Take(CeilDiv(s.rows(), kTileRows), sizeof(Tally));
  WorkspaceSizer tile;
  tile.Take(kTileRows * (columns + 3 + kMaxGroups), 4);
  tile.Take(kTileRows * kMaxGroups, 1);
  at.group_tile_bytes = tile.size();
  at.group_tile = all->Take(a->workers, at.group_tile_bytes);
}

int64_t LargestStateFloats(const Approximation& a) {
  if (a.method == ApproxMethod::kGroups) return GroupCount(a.shape.kv_len) * a.layout.floats(a.group_degree);
  int64_t floats = 0;
  for (int g = 0; g <= a.layout.monomials().degree(); ++g)
    floats = std::max(floats, PartialStates(a, g) * a.layout.floats(g));
  return floats;
}

}  // namespace

Status LayOutWorkspace(Approximation* a) {
  const Shape& s = a->shape;
  const int64_t rows = s.rows(), columns = a->layout.columns();
  ApproxLayout& at = a->at;
  WorkspaceSizer survey;
  survey.Take(s.qk_dim, 8);
  survey.Take(s.v_dim, 8);
  survey.Take(2 * s.v_dim, 4);
  at.survey_bytes = survey.size();
  WorkspaceSizer worker;
  worker.Take(s.qk_dim * kKeyPanel, 4);  // transposed rows
  worker.Take(kKeyPanel * columns, 4);   // values, or the output of a query panel
  worker.Take(a->layout.scratch_floats(), 4);
  worker.Take((a->layout.monomials().degree() + 1) * kQueryPanel, 4);
  worker.Take(3 * kQueryPanel, 4);
  worker.Take(kKeyPanel, 8);
  worker.Take(kQueryPanel * kMaxOutliers, 4);
  at.worker_bytes = worker.size();
  WorkspaceSizer all;
  at.surveys = all.Take(CeilDiv(s.kv_len, kSurveyKeys), at.survey_bytes);
  at.key_norms = all.Take(s.kv_len, 4);
  at.query_norms = all.Take(rows, 4);
  at.top_norms = all.Take(s.kv_len, 4);
  at.sample = all.Take(kSampleRows, 4);
  at.vectors = all.Take(3 * s.qk_dim + s.v_dim, 8);
  at.order = all.Take(std::max(rows, s.kv_len), 8);
  at.row_class = all.Take(rows, 1);
  at.outliers = all.Take(kMaxOutliers, 8 + 4 * (s.qk_dim + columns));
  at.state = all.Take(LargestStateFloats(*a), 4);
  at.worker = all.Take(a->workers, at.worker_bytes);
  if (a->method == ApproxMethod::kGroups) LayOutGroups(a, &all);
  if (a->gathered.has_value()) {
    at.gathered_q = all.Take(a->max_exact_rows * s.qk_dim, s.element_bytes);
    at.gathered_out = all.Take(a->max_exact_rows * s.v_dim, 4);
    at.gathered_lse = all.Take(a->max_exact_rows, 4);
  }
  if (a->diagonal.has_value()) {  // results of one chunk
    at.gathered_out = all.Take(a->chunk * s.group() * s.v_dim, 4);
    at.gathered_lse = all.Take(a->chunk * s.group(), 4);
  }
  int64_t exact = a->head->workspace_bytes;
  if (a->gathered.has_value()) exact = std::max(exact, a->gathered->workspace_bytes);
  at.exact = all.Take(1, exact);
  if (a->diagonal.has_value()) at.diagonal = all.Take(1, a->diagonal->workspace_bytes);
  at.bytes = all.size() + WorkspaceSizer::kAlignment;
  if (all.ok() && worker.ok() && survey.ok()) return {};
  return Status::Error(Code::kInvalidArgument, "the workspace for q_len %lld, kv_len %lld, dims %lld/%lld overflows",
                       static_cast<long long>(s.q_len), static_cast<long long>(s.kv_len),
                       static_cast<long long>(s.qk_dim), static_cast<long long>(s.v_dim));
}

}  // namespace attenio::approx
