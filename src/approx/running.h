// Polynomial state that grows by tokens; see RunningState.
#ifndef ATTENIO_SRC_APPROX_RUNNING_H_
#define ATTENIO_SRC_APPROX_RUNNING_H_

#include <cstddef>
#include <vector>

#include "approx/certificate.h"
#include "approx/state.h"
#include "attenio/approx.h"

namespace attenio::approx {

// Floats on a 64-byte boundary.
class AlignedFloats {
 public:
  explicit AlignedFloats(int64_t count);
  float* data() { return data_; }

 private:
  std::vector<float> storage_;
  float* data_;
};

class Running {
 public:
  // The options are valid; `degree` certifies them.
  Running(const RunningOptions& options, int degree);

  Status Add(const float* keys, const float* values, int64_t count);
  Status Attend(const float* queries, int64_t rows, float* out, float* certified);
  int64_t keys() const { return keys_; }
  const StateLayout& layout() const { return layout_; }
  int64_t bytes() const { return bytes_; }

  // The smallest degree that certifies the options for a first key; -1: none.
  static int ChooseDegree(const RunningOptions& options);

 private:
  // The certified error of a row with |scale| |q| = norm (infinity: none), and its polynomial.
  double RowBound(double norm, const ExpPolynomial** p) const;
  Status PrepareRow(const float* query, int64_t row, int64_t lane, float* multiplier, float* certified);
  void Flush();

  RunningOptions options_;
  std::vector<float> centre_;
  StateLayout layout_;
  std::vector<ExpPolynomial> polynomials_;  // ascending in bound
  std::vector<float> value_min_, value_max_;
  std::vector<double> key_sum_;
  double scale_ = 1;
  int64_t keys_ = 0, pending_ = 0, flushes_ = 0;
  int64_t bytes_ = 0;
  // Panels go into `recent_`, which goes into `total_` every kMerge panels: sums stay two levels deep.
  AlignedFloats recent_, total_, x_, v_, scratch_, query_, coefficients_, out_;
};

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_RUNNING_H_
