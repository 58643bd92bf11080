// One KV head of a polynomial call while it runs: views of the operands and pieces of the workspace.
#ifndef ATTENIO_SRC_APPROX_HEAD_H_
#define ATTENIO_SRC_APPROX_HEAD_H_

#include <cstdint>
#include <span>

#include "approx/run.h"
#include "approx/survey.h"
#include "attenio/parallel.h"

namespace attenio::approx {

inline constexpr uint8_t kExactRow = 255;

// One index of [s * stride, (s + 1) * stride), scattered: a regular stride would alias with periodic input.
inline int64_t SampleAt(int64_t s, int64_t stride) {
  return s * stride + static_cast<int64_t>(static_cast<uint64_t>(s) * 0x9e3779b97f4a7c15u >> 33) % stride;
}

// What the survey found.
struct Findings {
  bool finite = false;
  float* centre = nullptr;     // qk_dim
  double* key_sum = nullptr;   // qk_dim: of all keys
  double* kept_sum = nullptr;  // qk_dim: of the keys in the state
  float* middle = nullptr;     // v_dim: (min + max) / 2 of each value column
  double range = 0;            // largest max - min of a value column
};

// Pieces of one worker.
struct WorkerPiece {
  float *x, *v, *scratch, *coefficients, *den, *row_multiplier, *row_shift, *weights;
  int64_t* index;
};

// The keys that stay out of the state.
struct Outliers {
  int64_t count = 0, padded = 0;
  double largest = 0;              // norm, in radii
  const int64_t* index = nullptr;  // ascending
  float* k = nullptr;              // qk_dim x padded, normalised like the panels
  float* v = nullptr;              // padded x columns
};

struct Head {
  const Approximation& a;
  Operands operands;  // of this head: q, k, v, out, lse moved to its first element
  std::byte* base;    // workspace, aligned
  const Parallel& parallel;
  ApproxReport* report;
  int64_t batch, kv_head;

  RowView Keys() const;
  RowView Values() const;
  RowView Queries() const;
  RowView Out() const;
  RowView Lse() const;  // base nullptr when not wanted
  WorkerPiece Worker(int worker) const;
  KeySums SurveyPiece(int64_t task) const;
  float* Floats(int64_t offset) const { return reinterpret_cast<float*>(base + offset); }
  int64_t* Integers(int64_t offset) const { return reinterpret_cast<int64_t*>(base + offset); }
  uint8_t* RowClasses() const { return reinterpret_cast<uint8_t*>(base + a.at.row_class); }
  // Of a row in the arrays of the report: (batch, query head, query).
  int64_t ReportIndex(int64_t row) const {
    const int64_t group = a.shape.group();
    return (batch * a.shape.q_heads + kv_head * group + row % group) * a.shape.q_len + row / group;
  }
  int64_t rows() const { return a.shape.rows(); }
  int64_t keys() const { return a.shape.kv_len; }
};

// Reads keys and values once: sums, value ranges, whether everything is finite.
Findings Survey(const Head& head);

// Norms of the keys about the centre, and (when `queries`) of the query rows times |scale|.
void MeasureNorms(const Head& head, const Findings& findings, bool queries);

double MedianKeyNorm(const Head& head);

// The first `most` keys whose norm is above the radius; leaves the sum of the other keys in findings.kept_sum.
Outliers FindOutliers(const Head& head, const Findings& findings, double radius, int64_t most);

// Moves the centre to the mean of the keys that are not outliers (kept_sum) and measures the keys again.
void Recentre(const Head& head, Findings* findings, const Outliers& outliers);

// |mean of the `kept` keys in kept_sum - centre|
double Drift(const Head& head, const Findings& findings, int64_t kept);

// Choose over the measured norms.
Choice ChooseFor(const Head& head);

// How the rows and keys of one choice are brought to [-1, 1].
struct Normal {
  int degree = 0;
  double radius = 0;     // keys are divided by it
  double key_drift = 0;  // |mean of the keys of the state - centre| / radius
  const Findings* findings = nullptr;
};

// Loads the outlier keys and their values.
void GatherOutliers(const Head& head, const Normal& normal, Outliers* outliers);

// Adds the keys [keys.begin, keys.end) that are not outliers to z, over `blocks` of features.
void AddKeyRange(const Head& head, const Normal& normal, const Outliers& outliers, Range keys, Range blocks, float* z,
                 int worker);

// The class of one row by its norm, kExactRow when no class holds it.
uint8_t ClassOf(const Head& head, const Normal& normal, const Outliers& outliers, float query_norm);

// Numerator (out: kQueryPanel x columns) and denominator of up to kQueryPanel rows, listed in `index`, from a state; the
// weights are those of the centred scores times exp(-shift[r]) where outliers made a shift necessary.
void EvaluateRows(const Head& head, const Normal& normal, const Outliers& outliers, std::span<const int64_t> index,
                  const float* z, const WorkerPiece& w);

// Writes a finished row: out / den + middle. lse is that of the centred scores plus scale q . centre.
void WriteRow(const Head& head, const Findings& findings, int64_t row, const float* numerator, double den,
              double log_shift);

// scale q . centre
double CentreScore(const Head& head, const Findings& findings, int64_t row);

// Enters rows into the report.
void ReportRow(const Head& head, int64_t row, uint8_t row_class);
// Computes the rows that are marked kExactRow; false, with nothing done, when they are too many.
bool RunExactRows(const Head& head);
void RunHeadExactly(const Head& head, const char* reason);

// Causal calls: prefix states chunk by chunk.
void RunCausal(const Head& head, const Findings& findings, const Choice& choice);

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_HEAD_H_
