// What a polynomial row may be off by, and which polynomial serves which score bound.
#ifndef ATTENIO_SRC_APPROX_CERTIFICATE_H_
#define ATTENIO_SRC_APPROX_CERTIFICATE_H_

#include <cstdint>
#include <vector>

#include "approx/polynomial.h"

namespace attenio::approx {

// Relative error of one weight at the lower end of [-bound, bound], where terms of size e^bound cancel to e^-bound:
// unit e^{2 bound}. `unit` is the relative error of the sums involved (RoundingUnits x 2^-24). What holds without knowing the
// other weights of the row.
double CancellationError(double unit, double bound);

// The blocking of all sums between a key element and an output: each adds one rounding per term.
struct Blocking {
  int64_t key_panel = 0;      // keys summed in registers
  int64_t panels = 0;         // panels summed into one partial state
  int64_t partials = 0;       // partial states summed
  int64_t feature_block = 0;  // features summed in registers
  int64_t blocks = 0;         // blocks summed into the output
};
// Roundings (in units of 2^-24) that a term of the numerator or denominator collects, 6 g + 8 for its own products included.
double RoundingUnits(const Blocking& blocking, int degree);

// Error of a whole row from rounding, relative to the value range: with values measured from the middle of their range, and a
// denominator of at least m e^{-drift} (Jensen: the mean of the centred scores is at least -drift), numerator and denominator
// are off by at most `unit` m sum_k |c_k|. Grows like e^bound, not e^{2 bound}.
double RowRoundingError(double unit, const ExpPolynomial& p, double drift);

// A polynomial for every row with a score bound of at most p.bound, and what it certifies.
struct ScoreClass {
  ExpPolynomial p;
  double certified = 0;
};

// Ascending in bound and degree; the last class of a degree reaches as far as `max_error` allows. unit[g]: see
// RowRoundingError, for degrees 0..unit.size() - 1. Empty when nothing can be certified.
std::vector<ScoreClass> ScoreClasses(double max_error, const std::vector<double>& unit);

// Mean of the centred scores of any row is allowed to be this far below 0 (see RowRoundingError).
inline constexpr double kDrift = 0.5;

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_CERTIFICATE_H_
