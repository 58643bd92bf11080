// The f64 reference: attention computed row by row in double precision from the inputs as stored, and the error that a kernel
// may make on each output element. For tests and for verifying benchmarks; slow on purpose.
#ifndef ATTENIO_SRC_API_ORACLE_H_
#define ATTENIO_SRC_API_ORACLE_H_

#include <cstdint>
#include <vector>

#include "attenio/attention.h"

namespace attenio {

// One query row. An element of `out` may differ by at most
//   u(out type) |out| + 2 u(P) magnitude + (16 (1 + score_bound) + SumDrift(allowed)) u(f32) magnitude + underflow
// where P is the type in which the kernel multiplies probabilities. Underflow: weights below the f32 normal range are flushed,
// an output below the normal range of its type is rounded to a multiple of its smallest number, and every sum over a key loses as
// much as the smallest f32; with bf16 products as much as the smallest normal one, because VDPBF16PS flushes.
struct OracleRow {
  std::vector<double> out;        // v_dim
  std::vector<double> magnitude;  // v_dim: sum_j p_j |v_j|
  std::vector<double> values;     // v_dim: sum_j |v_j| over allowed keys
  // max_j |scale| sum_c |q_c k_jc| over allowed keys, plus the largest |ALiBi| + |mask| of keys that weigh 2^-40 of the heaviest
  // one or more, plus what a sink lies above them: in f32 a score of 1000 is known to 6e-5, wherever the 1000 came from.
  double score_bound = 0;
  double lse = 0;       // natural, sink included
  int64_t allowed = 0;  // keys
};

// `desc` as the caller gave it or resolved; must be valid (Plan::Create accepts it).
OracleRow ReferenceRow(const AttentionDesc& desc, const Operands& operands, int64_t batch, int64_t q_head,
                       int64_t query);

// How far a sum of `keys` equal f32 terms may drift, in units of u(f32) of itself, when blocks are summed from zero and then
// added up. Equal terms (values broadcast over the keys, near-uniform weights) round to the same side as long as the sum stays
// between two powers of two, so that errors add up instead of averaging out: m terms reach a total T = t 2^k, 1 <= t < 2, with at
// most m ((t - 1) + 1/3) / t^2 u T, whose largest value is 3/8 m u T at t = 4/3. Blocks of b keys make that 3/8 (b + keys / b): for
// keys <= 256 no more than 3/8 keys, and beyond for any b in 64..256 (kernels' blocks are 96-192) at most 3/8 (256 + keys / 64).
double SumDrift(int64_t keys);

// The bound above for element c.
double ErrorBound(const OracleRow& row, int64_t c, DType out_type, DType probability_type);

}  // namespace attenio

#endif  // ATTENIO_SRC_API_ORACLE_H_
