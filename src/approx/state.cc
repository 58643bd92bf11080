#include "approx/state.h"

#include <algorithm>

#include "base/bits.h"

namespace attenio::approx {
namespace {

float Multiplier(const PanelSource& s, int64_t r) {
  return s.row_multiplier != nullptr ? s.row_multiplier[r] : s.multiplier;
}

// Calls row(r, pointer to the first element) for every row of the panel.
template <class T, class Row>
void ForEachRow(const PanelSource& s, Row row) {
  for (int64_t r = 0; r < s.count; ++r) row(r, s.rows.Row<T>(s.index != nullptr ? s.index[r] : r));
}

}  // namespace

StateLayout::StateLayout(int64_t qk_dim, int64_t v_dim, int degree)
    : monomials_(qk_dim, degree, kFeatureBlock), v_dim_(v_dim) {
  for (int64_t b = 0; b < monomials_.blocks(); ++b) {
    first_row_.push_back(first_row_.back() + RoundUp(monomials_.block_features(b), kRowQuantum));
  }
}

int64_t StateLayout::scratch_floats() const {
  return (kFeatureBlock + monomials_.degree() + 1) * std::max(kKeyPanel, kQueryPanel);
}

void LoadTransposed(const PanelSource& source, int64_t dim, int64_t width, float* x) {
  WithFloatType(source.rows.dtype, [&](auto* type) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    // 16 rows at a time: their elements of one coordinate share a cache line of x.
    for (int64_t first = 0; first < width; first += 16) {
      const int64_t rows = std::clamp<int64_t>(source.count - first, 0, 16);
      const T* row[16];
      float multiplier[16];
      for (int64_t r = 0; r < rows; ++r) {
        row[r] = source.rows.Row<T>(source.index != nullptr ? source.index[first + r] : first + r);
        multiplier[r] = Multiplier(source, first + r);
      }
      for (int64_t c = 0; c < dim; ++c) {
        const float shift = source.shift != nullptr ? source.shift[c] : 0;
        float* out = x + c * width + first;
        for (int64_t r = 0; r < rows; ++r) out[r] = (ToFloat(row[r][c * source.rows.element]) - shift) * multiplier[r];
        for (int64_t r = rows; r < 16; ++r) out[r] = 0;
      }
    }
  });
}

void LoadRows(const PanelSource& source, int64_t dim, int64_t stride, int64_t width, float* x) {
  WithFloatType(source.rows.dtype, [&](auto* type) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    ForEachRow<T>(source, [&](int64_t r, const T* row) {
      float* out = x + r * stride;
      const float m = Multiplier(source, r);
      for (int64_t c = 0; c < dim; ++c) {
        out[c] = (ToFloat(row[c * source.rows.element]) - (source.shift != nullptr ? source.shift[c] : 0)) * m;
      }
      std::fill(out + dim, out + stride, 0.0f);
    });
  });
  std::fill(x + source.count * stride, x + width * stride, 0.0f);
}

void AddKeys(const StateLayout& layout, const AddKeysArgs& args) {
  const FeatureKernels& kernels = GetFeatureKernels();
  const Monomials& m = layout.monomials();
  float* panel = args.scratch;
  float* stack = panel + kFeatureBlock * kKeyPanel;
  PanelArgs p{.x = args.x, .width = kKeyPanel, .rows = args.count, .stack = stack, .panel = panel};
  for (int64_t b = args.blocks.begin; b < args.blocks.end; ++b) {
    p.runs = m.runs(b);
    p.run_count = m.run_count(b);
    kernels.panel(p);
    const int64_t row = layout.first_row(b);
    kernels.product({.a = panel,
                     .a_row = kKeyPanel,
                     .a_k = 1,
                     .b = args.v,
                     .c = args.z + row * layout.columns(),
                     .stride = layout.columns(),
                     .rows = m.block_features(b),
                     .columns = layout.columns(),
                     .depth = args.count});
    kernels.row_sums(panel, kKeyPanel, m.block_features(b), layout.sums(args.z, args.degree) + row);
  }
}

void ApplyRows(const StateLayout& layout, const ApplyRowsArgs& args) {
  const FeatureKernels& kernels = GetFeatureKernels();
  const Monomials& m = layout.monomials();
  float* panel = args.scratch;
  PanelArgs p{.x = args.x,
              .width = kQueryPanel,
              .rows = args.count,
              .degree_scale = args.coefficients,
              .stack = panel + kFeatureBlock * kQueryPanel,
              .panel = panel,
              .dots = args.den};
  for (int64_t b = 0; b < m.blocks(args.degree); ++b) {
    p.runs = m.runs(b);
    p.run_count = m.run_count(b);
    p.weights = layout.sums(args.z, args.state_degree) + layout.first_row(b);
    kernels.panel(p);
    kernels.product({.a = panel,
                     .a_row = 1,
                     .a_k = kQueryPanel,
                     .b = args.z + layout.first_row(b) * layout.columns(),
                     .c = args.out,
                     .stride = layout.columns(),
                     .rows = args.count,
                     .columns = layout.columns(),
                     .depth = m.block_features(b)});
  }
}

}  // namespace attenio::approx
