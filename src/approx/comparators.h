// Approximations of others, for studies only: plain loops, one thread, f32.
#ifndef ATTENIO_SRC_APPROX_COMPARATORS_H_
#define ATTENIO_SRC_APPROX_COMPARATORS_H_

#include "attenio/approx.h"
#include "kernels/kernels.h"

namespace attenio::approx {

// One head, views of f32 rows.
struct ComparatorHead {
  RowView q, k, v;
  RowView out;
  int64_t rows = 0, keys = 0, qk_dim = 0, v_dim = 0, offset = 0;
  double scale = 1;
};

void RunTaylor(const ComparatorHead& head, int degree);
void RunPerformer(const ComparatorHead& head, const ComparatorOptions& options);
void RunNystrom(const ComparatorHead& head, int64_t landmarks);
void RunWindow(const ComparatorHead& head, const ComparatorOptions& options);

// FAVOR+'s estimate of e^{x.y} from `features` draws, and its variance (Choromanski et al. 2021):
// e^{|x+y|^2} e^{2 x.y} (1 - e^{-|x+y|^2}) / features.
double PerformerEstimate(const float* x, const float* y, int64_t dim, int64_t features, uint64_t seed);
double PerformerVariance(const float* x, const float* y, int64_t dim, int64_t features);

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_COMPARATORS_H_
