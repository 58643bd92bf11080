// Kernels of polynomial attention: monomials of many rows at once, and the small matrix products around the state. Rows,
// coordinates and features only; which polynomial and which rows is decided elsewhere.
#ifndef ATTENIO_SRC_KERNELS_FEATURES_H_
#define ATTENIO_SRC_KERNELS_FEATURES_H_

#include <cstdint>

namespace attenio {

// Panels are a multiple of this many rows wide: whole vectors and whole register tiles on every instruction set.
inline constexpr int64_t kPanelQuantum = 48;
inline constexpr int kMaxMonomialDegree = 20;

// Siblings in the tree of monomials: the parent x[path[0]] ... x[path[depth-1]] times each coordinate of [begin, end).
struct MonomialRun {
  int16_t path[kMaxMonomialDegree] = {};
  int16_t depth = 0;       // degree of the parent; -1: the constant monomial, which has no parent
  int16_t keep = 0;        // leading entries of `path` that equal those of the run before it in the same panel
  int32_t begin = 0, end = 0;
  int32_t panel_row = 0;   // of the first child
  float scale = 1;         // multinomial of every child but the first ...
  float first_scale = 1;   // ... and of the first, which may repeat the parent's last coordinate
};

// Monomials of `width` rows. Without degree_scale: plain products (keys). With it (queries): times degree_scale[degree][row]
// times the multinomial.
struct PanelArgs {
  const float* x = nullptr;  // coordinate c of row r is x[c * width + r]; rows beyond `rows` are 0
  int64_t width = 0;         // multiple of kPanelQuantum
  int64_t rows = 0;          // rows in use
  const MonomialRun* runs = nullptr;
  int64_t run_count = 0;
  const float* degree_scale = nullptr;  // (degrees + 1) x width
  float* stack = nullptr;               // (degrees + 1) x width scratch
  float* panel = nullptr;               // features x width, row panel_row of a run onwards
  const float* weights = nullptr;       // one per panel row, or nullptr:
  float* dots = nullptr;                // dots[r] += sum_f weights[f] panel[f][r]
};

// c[i][j] += sum_k a[i a_row + k a_k] b[k][j]. The sum over k is formed first, then added: blocked summation.
struct ProductArgs {
  const float* a = nullptr;
  int64_t a_row = 0, a_k = 0;
  const float* b = nullptr;
  float* c = nullptr;
  int64_t stride = 0;    // of b and, unless c_stride is set, c; a multiple of kColumnQuantum, 64-byte aligned rows
  int64_t c_stride = 0;
  int64_t rows = 0;     // c and a must have RoundUp(rows, kRowQuantum) rows
  int64_t columns = 0;  // multiple of kColumnQuantum
  int64_t depth = 0;
};
inline constexpr int64_t kRowQuantum = 12;
inline constexpr int64_t kColumnQuantum = 16;

// scores[r][j] = 2^(scores[r][j] - shift[r]) for j in 0..count, 0 beyond; sums[r] += their sum.
struct WeightArgs {
  float* scores = nullptr;
  int64_t stride = 0;  // multiple of kColumnQuantum, 64-byte aligned rows
  int64_t rows = 0, count = 0;
  const float* shift = nullptr;
  float* sums = nullptr;
};

struct FeatureKernels {
  const char* name;
  void (*panel)(const PanelArgs& args);
  void (*product)(const ProductArgs& args);
  void (*weights)(const WeightArgs& args);
  // sums[f] += sum_r panel[f * width + r], f in 0..features
  void (*row_sums)(const float* panel, int64_t width, int64_t features, float* sums);
};

// The best of this machine. Thread-safe; the table lives forever.
const FeatureKernels& GetFeatureKernels();

}  // namespace attenio

#endif  // ATTENIO_SRC_KERNELS_FEATURES_H_
