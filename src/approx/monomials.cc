#include "approx/monomials.h"

#include <algorithm>

namespace attenio::approx {

Monomials::Monomials(int64_t dims, int degree, int64_t block) : dims_(dims), degree_(degree), block_(block) {
  AddRun({.depth = -1, .end = 1});
  degree_blocks_.push_back(1);
  for (int k = 1; k <= degree; ++k) {
    if (k > 1) CloseBlock();
    // Parents of degree k - 1 in lexicographic order: non-decreasing sequences of coordinates.
    MonomialRun parent{.depth = static_cast<int16_t>(k - 1)};
    for (bool more = dims > 0; more;) {
      const int depth = k - 1;
      parent.begin = depth == 0 ? 0 : parent.path[depth - 1];
      parent.end = static_cast<int32_t>(dims);
      // Multinomial |a|! / a! of the parent times k / (exponent of the new coordinate after the step).
      double multinomial = 1;
      int repeat = 0;
      for (int i = 0; i < depth; ++i) {
        repeat = i > 0 && parent.path[i] == parent.path[i - 1] ? repeat + 1 : 1;
        multinomial *= static_cast<double>(i + 1) / repeat;
      }
      parent.scale = static_cast<float>(multinomial * k);
      parent.first_scale = static_cast<float>(multinomial * k / (repeat + 1));
      AddRun(parent);
      int i = depth - 1;
      while (i >= 0 && parent.path[i] == dims - 1) --i;
      more = i >= 0;
      if (more) std::fill(parent.path + i, parent.path + depth, static_cast<int16_t>(parent.path[i] + 1));
    }
    prefix_.push_back(FeatureCount(dims, k));
    degree_blocks_.push_back(static_cast<int64_t>(block_first_run_.size()));
  }
  CloseBlock();
}

void Monomials::AddRun(MonomialRun run) {
  while (run.begin < run.end) {
    const bool fresh = static_cast<int64_t>(runs_.size()) == block_first_run_.back();
    int64_t used = 0;
    run.keep = 0;
    if (!fresh) {
      const MonomialRun& last = runs_.back();
      used = last.panel_row + last.end - last.begin;
      const int common = std::min(last.depth, run.depth);
      while (run.keep < common && last.path[run.keep] == run.path[run.keep]) ++run.keep;
    }
    if (used == block_) {
      CloseBlock();
      continue;
    }
    MonomialRun piece = run;
    piece.panel_row = static_cast<int32_t>(used);
    piece.end = static_cast<int32_t>(std::min<int64_t>(run.end, run.begin + block_ - used));
    runs_.push_back(piece);
    run.begin = piece.end;
    run.first_scale = run.scale;
  }
}

void Monomials::CloseBlock() {
  const MonomialRun& last = runs_.back();
  block_first_feature_.push_back(block_first_feature_.back() + last.panel_row + last.end - last.begin);
  block_first_run_.push_back(static_cast<int64_t>(runs_.size()));
}

}  // namespace attenio::approx
