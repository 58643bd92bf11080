// I/O of polynomial attention, O = D^-1 Phi(Q) (Phi(K)^T [V 1]) with the monomials of degree <= g as features: the schedules of
// a fast memory of any size, their exact word counts, lower bounds, and the same Steps as the exact dataflows.
// Regimes after "Approaching I/O-optimality for Approximate Attention" (arXiv 2605.23751); schedules and constants are our own.
#ifndef ATTENIO_IO_POLY_H_
#define ATTENIO_IO_POLY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attenio/export.h"
#include "attenio/io.h"
#include "attenio/status.h"
#include "attenio/types.h"

namespace attenio {

// Monomials of degree <= degree in `dims` coordinates, C(dims + degree, degree); INT64_MAX when that does not fit.
ATTENIO_API int64_t FeatureCount(int64_t dims, int degree);

enum class PolyRegime : uint8_t {
  kResident,  // R: the whole state Z stays; keys, then queries pass once
  kColumns,   // B2: `columns` columns of Z at a time; K and Q pass once per block
  kBlocks,    // B3: `features` x `columns` of Z at a time; O accumulates in slow memory
  kTensor,    // TT: monomials of degree g of g blocks of `coordinates` coordinates at a time: only those columns of K and Q pass
};
ATTENIO_API const char* Name(PolyRegime regime);

// One level: which part of Z is resident.
struct PolySchedule {
  PolyRegime regime = PolyRegime::kResident;
  int degree = 2;
  int64_t features = 0;     // kBlocks
  int64_t columns = 0;      // kColumns, kBlocks, kTensor: of [V 1]
  int64_t coordinates = 0;  // kTensor

  ATTENIO_API std::string ToString() const;  // "R:g2", "B2:g2:w5", "B3:g2:b100w9", "TT:g2:s16w8"
  friend bool operator==(const PolySchedule&, const PolySchedule&) = default;
};

// Words of fast memory that the schedule needs.
ATTENIO_API double PolyCapacity(const PolySchedule& schedule, const Shape& shape);

// Words across the boundary for one KV head (m keys, n rows, dk, dv; T = ceil((dv + 1) / w), Tb = ceil(r / b)); compulsory is
// (m + n)(dk + dv):
//   R   compulsory
//   B2  T (m + n) dk + (m + n) dv, and n T for the denominators when T > 1
//   B3  Tb T (m + n) dk + Tb m dv + (2 Tb - 1) n (dv + 1), numerators and denominators left unnormalised
//   TT  as B3 with C = C(D + g - 1, g) tiles for Tb, D = ceil(dk / s), each of which reads only its own coordinates of K and Q:
//       (C - C(D + g - 2, g)) T (m + n) dk + C m dv + (2 C - 1) n (dv + 1); at most C T n (2 g s + 3 w) for m = n
ATTENIO_API Traffic Predict(const PolySchedule& schedule, const Shape& shape);

// The steps of one KV head: kState over all keys, then kApply over all rows, for each resident part of Z. `features` of a
// kTensor step is the tile [t, t + 1), see TensorTile; `dims` are columns of [V 1], the last of which is the denominator.
ATTENIO_API void ForEachStep(const PolySchedule& schedule, const Shape& shape, StepVisitor visit);

// Coordinates of K and Q that tile `tile` of a kTensor schedule reads: the distinct blocks, ascending.
ATTENIO_API std::vector<Range> TensorTile(const PolySchedule& schedule, const Shape& shape, int64_t tile);

// The count of Predict by walking the steps and tracking what is in fast memory. kInvalidArgument when the resident words exceed
// `words` somewhere.
ATTENIO_API Result<Traffic> SimulateScratchpad(const PolySchedule& schedule, const Shape& shape, double words);

// Line-granular LRU caches under the loops that run on the CPU (regime R outside, blocks of features inside): panels of keys and
// of query rows of `panel` rows, `block` features at a time, state in f32.
struct PolyCacheOptions {
  int64_t key_panel = 192, query_panel = 96, block = 48;
};
ATTENIO_API Result<std::vector<LineTraffic>> SimulateCaches(const PolySchedule& schedule, const Shape& shape, const Machine& machine,
                                                            const PolyCacheOptions& options);

enum class PolyBoundKind : uint8_t {
  kCompulsory,  // any: inputs once, outputs once
  kDense,       // about 1.5 n r d^2 / S for features that share nothing, n = m rows
  kMonomials,   // n d^{g+1} / S^{g/(g+1)}, up to a constant in g: compare shapes of curves only
};
ATTENIO_API const char* Name(PolyBoundKind kind);
ATTENIO_API double PolyLowerBound(const Shape& shape, int degree, double words, PolyBoundKind kind);

// The schedule that moves fewest words among all blocks of all regimes that fit `words`. kInvalidArgument when none does.
ATTENIO_API Result<PolySchedule> SolvePoly(const Shape& shape, int degree, double words);
ATTENIO_API Result<PolySchedule> SolvePoly(const Shape& shape, int degree, double words, PolyRegime regime);

// Rows from which polynomial attention does less arithmetic than exact attention, r (dv + 1) / dv for n = m, twice that under a
// causal mask.
ATTENIO_API double FlopBreakEven(int64_t qk_dim, int64_t v_dim, int degree, bool causal);

}  // namespace attenio

#endif  // ATTENIO_IO_POLY_H_
