// Polynomial attention of one call: an immutable plan, and its run over the KV heads.
#ifndef ATTENIO_SRC_APPROX_RUN_H_
#define ATTENIO_SRC_APPROX_RUN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "approx/certificate.h"
#include "approx/choose.h"
#include "approx/state.h"
#include "attenio/approx.h"
#include "exec/run.h"

namespace attenio::approx {

// Offsets into the workspace of a call; pieces are reused from KV head to KV head.
struct ApproxLayout {
  int64_t surveys = 0, survey_bytes = 0;  // one per survey task
  int64_t key_norms = 0, query_norms = 0;
  int64_t top_norms = 0, sample = 0;  // floats: largest key norms, sampled query norms
  int64_t vectors = 0;                // centre, value middle and other per-head vectors
  int64_t order = 0, row_class = 0;   // rows by class; class of each row
  int64_t outliers = 0;               // indices, K^T and V of the outlier keys
  int64_t state = 0;                  // partial states
  int64_t worker = 0, worker_bytes = 0;
  int64_t gathered_q = 0, gathered_out = 0, gathered_lse = 0;
  int64_t exact = 0;     // workspace of the executor ...
  int64_t diagonal = 0;  // ... and of the causal diagonals
  // kGroups, see cluster.h and blockwise.h.
  int64_t group_of = 0, group_centres = 0, group_radius = 0, group_begin = 0, group_means = 0, group_sums = 0;
  int64_t group_sample = 0, group_keys = 0, group_values = 0, group_tallies = 0, group_tile = 0, group_tile_bytes = 0;
  int64_t bytes = 0;
};

// A planned call. Immutable.
struct Approximation {
  AttentionDesc desc;  // resolved
  Shape shape;
  ApproxMode mode = ApproxMode::kFastest;
  ApproxMethod method = ApproxMethod::kState;
  double max_error = 0;
  int workers = 1;
  const char* exact_reason = "";  // not empty: the whole call runs as `all`
  std::vector<ScoreClass> classes;
  Costs costs;
  StateLayout layout;               // of the largest degree that a class has
  int64_t max_exact_rows = 0;       // of one KV head beside a state
  std::optional<Problem> all;       // the whole call
  std::optional<Problem> head;      // one KV head; causal: one tile per query chunk
  std::optional<Problem> gathered;  // rows picked from one KV head, f32 output
  std::optional<Problem> diagonal;  // causal: one query chunk against its own keys
  int64_t chunk = 0;                // causal: queries of a chunk
  int group_degree = 1;             // kGroups: of the polynomial of a group, its weight errors by score bound ...
  std::vector<ScoreClass> group_classes;
  double group_exact_cost = 0, group_poly_cost = 0;  // ... and products of a row with a group
  ApproxLayout at;
};

// Keys of one survey task: large against the hand-out of tasks.
inline constexpr int64_t kSurveyKeys = 4096;
inline constexpr int64_t kMaxOutliers = 256;
inline constexpr int64_t kSampleRows = 4096;

// `desc` resolved (every default filled in).
Result<Approximation> PlanApproximation(const AttentionDesc& desc, const ApproxOptions& options,
                                        const Machine& machine);

// Fills a->at; kInvalidArgument when the sizes overflow.
Status LayOutWorkspace(Approximation* a);

// Partial states of a degree: keys are split at fixed points into this many ranges, whatever the workers.
int64_t PartialStates(const Approximation& a, int degree);

void RunApproximation(const Approximation& a, const Operands& operands, std::byte* workspace, const Parallel& parallel,
                      ApproxReport* report);

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_RUN_H_
