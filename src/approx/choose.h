// Which rows of a KV head go through the state, at which degree, and which keys are left out of it: the cheapest of the
// certified possibilities, by predicted time.
#ifndef ATTENIO_SRC_APPROX_CHOOSE_H_
#define ATTENIO_SRC_APPROX_CHOOSE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "approx/certificate.h"

namespace attenio::approx {

// Predicted seconds. Degrees are the index.
struct Costs {
  std::vector<double> key;  // one key into the state
  std::vector<double> row;  // one query row out of it
  double exact_row = 0;     // one query row against all keys
  double outlier = 0;       // one (row, outlier key) pair
  double fixed = 0;         // polynomial path, independent of the choice: survey, norms
};

// The rates behind Costs: fractions of peak that the kernels reach (measured, see bench/approx_bench.cc).
struct CostInputs {
  int64_t keys = 0;
  double keys_per_row = 0;  // that a row may attend, on average
  int64_t qk_dim = 0, v_dim = 0;
  double fma_flops = 0;           // one core
  double exact_flops = 0;         // of the exact kernel, one core
  std::vector<int64_t> features;  // per degree
};
Costs PredictCosts(const CostInputs& inputs);

struct Choice {
  int degree = -1;           // of the state; -1: everything exactly
  int64_t outliers = 0;      // keys with the largest norms, left out of the state
  double radius = 0;         // largest norm of the others
  double seconds = 0;        // predicted
  double exact_seconds = 0;  // predicted for exact attention
};

struct ChooseInputs {
  const std::vector<ScoreClass>* classes = nullptr;
  const Costs* costs = nullptr;
  int64_t rows = 0, keys = 0;
  std::span<const float> query_norms;  // |scale| |q| of a sample of the rows, ascending
  std::span<const float> key_norms;  // the largest |k - c|, descending: at least one, outliers are taken from its head
  int64_t max_exact_rows = 0;        // more than this in the sample's proportion: everything exactly
  bool always = false;               // take the cheapest polynomial choice even if exact attention is cheaper
};
Choice Choose(const ChooseInputs& inputs);

// Index of the smallest class whose bound is at least `bound` and whose degree is at most `degree`; -1 if none.
int FindClass(const std::vector<ScoreClass>& classes, double bound, int degree);

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_CHOOSE_H_
