// Results against the f64 oracle, row by row, by the one tolerance rule of api/oracle.h.
#ifndef ATTENIO_SRC_CLI_VERIFY_H_
#define ATTENIO_SRC_CLI_VERIFY_H_

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "attenio/attention.h"

namespace attenio::cli {

struct RowIndex {
  int64_t batch = 0, head = 0, query = 0;
};

// The worst element seen so far: error / bound, infinite when only one side is NaN or the signs of infinities differ.
struct Verdict {
  double worst = 0;
  double error = 0, bound = 0;  // of that element
  int64_t rows = 0;
  std::string where;  // "out[0,1,5,3] is 0.5, expected 0.25"
  bool ok() const { return worst <= 1; }
};

// |got - want| / bound, by the rules above.
double ErrorOverBound(double got, double want, double bound);

// The type in which the kernel of this name multiplies probabilities.
DType ProbabilityType(std::string_view kernel);

// Compares one row of operands.out, and of operands.lse if desc.lse, with the oracle and updates *verdict. `desc` as given to
// Plan::Create.
void VerifyRow(const AttentionDesc& desc, const Operands& operands, const RowIndex& row, DType probability_type,
               Verdict* verdict);

// The same for a row that is certified to `allowed` of each value column, plus the rounding of the output; its LSE is not looked at.
void VerifyRowWithin(const AttentionDesc& desc, const Operands& operands, const RowIndex& row,
                     const std::vector<double>& allowed, Verdict* verdict);

// Rows to verify: all of them while kv_len * (qk_dim + v_dim) * rows stays below `budget`, else the first, the last and random
// others (at least four).
std::vector<RowIndex> ChooseRows(const AttentionDesc& desc, double budget, std::mt19937_64* random);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_VERIFY_H_
