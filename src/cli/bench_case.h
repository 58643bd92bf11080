// Benchmark cases by name, and their inputs: the same hash as other programs that are compared with attenio use.
#ifndef ATTENIO_SRC_CLI_BENCH_CASE_H_
#define ATTENIO_SRC_CLI_BENCH_CASE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attenio/attention.h"
#include "cli/operands.h"

namespace attenio::cli {

struct BenchCase {
  std::string name;
  int64_t batch, q_heads, kv_heads, q_len, kv_len, qk_dim, v_dim;
  bool causal;  // offset 0
  DType dtype;

  bool decode() const { return q_len == 1; }
  // 2 batch q_heads n m (d_qk + d_v), half of it if causal.
  double Flops() const;
  double KvBytes() const;  // as stored
};

// The cases of this build.
std::vector<BenchCase> BuiltInCases();

// A table with a heading line and the columns name B Hq Hkv Nq Nkv D Dv causal dtype. Throws InputError with the line.
std::vector<BenchCase> ReadCases(const std::string& path);

// q, k, v and room for the output of a case, contiguous (batch, head, len, dim): element i of tensor t (0 q, 1 k, 2 v) is a hash
// of (t, i) turned into a uniform number of variance 1, rounded to the case's type.
Problem MakeProblem(const BenchCase& bench_case);

// Eight elements of `out`, spread over batch, heads, queries and dims, that tell whether two programs computed the same.
std::vector<double> Signature(const BenchCase& bench_case, const Tensor& out);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_BENCH_CASE_H_
