// Monomials of degree <= g in d coordinates, in an order that a product tree can generate: by degree, then by parent, so that
// the features of every smaller degree are a prefix and the children of one parent are neighbours.
#ifndef ATTENIO_SRC_APPROX_MONOMIALS_H_
#define ATTENIO_SRC_APPROX_MONOMIALS_H_

#include <cstdint>
#include <vector>

#include "attenio/io_poly.h"
#include "kernels/features.h"

namespace attenio::approx {

// The features cut into blocks of at most `block`: each block is a list of runs whose panel_row counts from the block's first.
class Monomials {
 public:
  Monomials() = default;
  Monomials(int64_t dims, int degree, int64_t block);

  int64_t dims() const { return dims_; }
  int degree() const { return degree_; }
  int64_t count() const { return prefix_.back(); }
  // Features of degree <= k.
  int64_t count(int k) const { return prefix_[k]; }
  // A degree above 1 begins a new block, so that rows of a smaller degree stop at a block's edge.
  int64_t blocks() const { return static_cast<int64_t>(block_first_run_.size()) - 1; }
  // Blocks that hold the features of degree <= k.
  int64_t blocks(int k) const { return degree_blocks_[k]; }
  int64_t block_features(int64_t b) const { return block_first_feature_[b + 1] - block_first_feature_[b]; }
  int64_t first_feature(int64_t b) const { return block_first_feature_[b]; }
  const MonomialRun* runs(int64_t b) const { return runs_.data() + block_first_run_[b]; }
  int64_t run_count(int64_t b) const { return block_first_run_[b + 1] - block_first_run_[b]; }

 private:
  void AddRun(MonomialRun run);
  void CloseBlock();

  int64_t dims_ = 0;
  int degree_ = 0;
  int64_t block_ = 0;
  std::vector<int64_t> prefix_{1};
  std::vector<int64_t> degree_blocks_;
  std::vector<int64_t> block_first_run_{0}, block_first_feature_{0};
  std::vector<MonomialRun> runs_;
};

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_MONOMIALS_H_
