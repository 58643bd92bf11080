// The state of polynomial attention, Z = Phi(K)^T [V 1], and its application to query rows. One key panel or one query
// panel at a time: the panel of features stays in L1, Z streams once per panel.
#ifndef ATTENIO_SRC_APPROX_STATE_H_
#define ATTENIO_SRC_APPROX_STATE_H_

#include <cstdint>
#include <vector>

#include "approx/monomials.h"
#include "base/math.h"
#include "kernels/features.h"
#include "kernels/kernels.h"

namespace attenio::approx {

// 192 keys: a register tile of Z is loaded and stored once per 192 products, and K^T, V and one panel of 48 features stay
// below half of a 1 MiB L2 for dims up to 256. 96 queries: their accumulators and a panel of features share L1.
inline constexpr int64_t kKeyPanel = 192;
inline constexpr int64_t kQueryPanel = 96;
inline constexpr int64_t kFeatureBlock = 48;

// Limits, so that no size below overflows: coordinates of a monomial are 16-bit, and no memory holds more rows than this.
inline constexpr int64_t kMaxDim = 32768;
inline constexpr int64_t kMaxRows = int64_t{1} << 40;
// Monomials beyond this are never cheaper than the exact path on less than a million keys.
inline constexpr int64_t kMaxFeatures = 100000;

// Where the rows of Z are: the features of a block, padded to whole register tiles.
class StateLayout {
 public:
  StateLayout() = default;
  StateLayout(int64_t qk_dim, int64_t v_dim, int degree);

  const Monomials& monomials() const { return monomials_; }
  int64_t v_dim() const { return v_dim_; }
  int64_t columns() const { return RoundUp(v_dim_, kColumnQuantum); }
  // A state of degree k uses the first rows(k) rows: Z (rows x columns), then one sum of features per row.
  int64_t rows(int degree) const { return first_row_[monomials_.blocks(degree)]; }
  int64_t first_row(int64_t block) const { return first_row_[block]; }
  // A multiple of 16 floats.
  int64_t floats(int degree) const { return rows(degree) * columns() + RoundUp(rows(degree), 16); }
  template <class Float>
  Float* sums(Float* z, int degree) const {
    return z + rows(degree) * columns();
  }

  // Floats of scratch that AddKeys and ApplyRows need, 64-byte aligned.
  int64_t scratch_floats() const;

 private:
  Monomials monomials_;
  int64_t v_dim_ = 0;
  std::vector<int64_t> first_row_{0};
};

// Which rows of a tensor make a panel, and what is done to them: x = (row - shift) * multiplier.
struct PanelSource {
  RowView rows;
  const int64_t* index = nullptr;  // rows index[0..count), or nullptr: rows 0..count
  int64_t count = 0;
  const float* shift = nullptr;  // per element, or nullptr
  float multiplier = 1;
  const float* row_multiplier = nullptr;  // per row of the panel, instead of `multiplier`
};

// x[c * width + r] for c in 0..dim (transposed), zero beyond count.
void LoadTransposed(const PanelSource& source, int64_t dim, int64_t width, float* x);
// x[r * stride + c], zero beyond dim and, up to `width` rows, beyond count.
void LoadRows(const PanelSource& source, int64_t dim, int64_t stride, int64_t width, float* x);

// Z += Phi(keys)^T [values 1] over the feature blocks [block_begin, block_end). x: qk_dim x kKeyPanel; v: kKeyPanel x columns().
struct AddKeysArgs {
  const float* x = nullptr;
  const float* v = nullptr;
  int64_t count = 0;
  int degree = 0;  // of the state
  Range blocks;
  float* z = nullptr;
  float* scratch = nullptr;
};
void AddKeys(const StateLayout& layout, const AddKeysArgs& args);

// out += Phi(queries) Z, den += Phi(queries) sums, with the features of degree <= degree. x: qk_dim x kQueryPanel;
// coefficients: (degree + 1) x kQueryPanel; out: kQueryPanel x columns(); den: kQueryPanel.
struct ApplyRowsArgs {
  const float* x = nullptr;
  const float* coefficients = nullptr;
  int64_t count = 0;
  int degree = 0;  // of the rows, at most that of the state
  int state_degree = 0;
  const float* z = nullptr;
  float* out = nullptr;
  float* den = nullptr;
  float* scratch = nullptr;
};
void ApplyRows(const StateLayout& layout, const ApplyRowsArgs& args);

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_STATE_H_
