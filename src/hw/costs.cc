// Cycles of the parts of a step.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "hw/timeline.h"

namespace attenio::hw {
namespace {

// Operations on every score of a block-wise softmax, each a pass over the block when they are not pipelined: maximum,
// subtract, exponential, sum. Operations on every row that correct earlier blocks: subtract, exponential, multiply l.
constexpr int64_t kScorePasses = 4;
constexpr int64_t kRowPasses = 3;

}  // namespace

int64_t Costs::Matmul(int64_t pairs, int64_t depth) const {
  const int64_t macs = run_->hw.macs();
  int64_t cycles = pairs / macs * depth;
  // Of fewer pairs than MACs, `share` MACs take each and a part of its depth (AttenIO, Sec. 4: 64 + 64 steps at d = 128).
  // Or share + 1, as many pairs as that has room for, if that and what remains takes less.
  for (int64_t rest = pairs % macs; rest > 0;) {
    const int64_t share = std::min(depth, macs / rest);
    const int64_t together = CeilDiv(depth, share);
    const int64_t first = macs / (share + 1), left = rest - first;
    const int64_t split = CeilDiv(depth, share + 1) + (left > 0 ? CeilDiv(depth, std::min(depth, macs / left)) : 0);
    if (first == 0 || share == depth || split >= together) return cycles + together;
    cycles += CeilDiv(depth, share + 1);
    rest = left;
  }
  return cycles;
}

int64_t Costs::QK(int64_t rows, int64_t keys) const { return Matmul(rows * keys, run_->shape.qk_dim); }
int64_t Costs::PV(int64_t rows, int64_t keys) const { return Matmul(rows * keys, run_->shape.v_dim); }
int64_t Costs::Finish(int64_t rows) const { return Matmul(rows, run_->shape.v_dim); }

int64_t Costs::Softmax(int64_t rows, int64_t keys) const {
  const int64_t scores = CeilDiv(rows * keys, run_->hw.exp_modules);
  const int64_t corrections = CeilDiv(rows, run_->hw.exp_modules);
  if (run_->tile().dataflow != Dataflow::kQueryResident)
    return kScorePasses * scores;                                    // whole rows: nothing to correct
  if (run_->overlap.pipelined_softmax) return scores + corrections;  // an exponential a score and one a row
  return kScorePasses * scores + kRowPasses * corrections;
}

int64_t Costs::SoftmaxHidden(int64_t rows, int64_t keys) const {
  if (!run_->overlap.pipelined_softmax || run_->tile().dataflow != Dataflow::kQueryResident) return 0;
  // At least one pass lies between the products.
  return std::min(run_->hw.softmax_overlap_cycles, Softmax(rows, keys) - CeilDiv(rows * keys, run_->hw.exp_modules));
}

int64_t Costs::Fused2D(int64_t rows, int64_t keys) const {
  const int64_t tiles = CeilDiv(rows, run_->hw.mac_lines) * CeilDiv(keys, run_->hw.macs_per_line);
  // Products, the local maximum, an exponential, the local sum.
  return tiles * (run_->shape.qk_dim + 1 + run_->hw.mac_exp_cycles + 1 + run_->shape.v_dim);
}

int64_t Costs::Fused1D(int64_t rows, int64_t keys) const {
  // A row and block: maximum, exponential of its change, multiply-add of l, multiply and add of every element of O.
  const int64_t blocks = CeilDiv(keys, run_->hw.macs_per_line);
  return blocks * CeilDiv(rows, run_->hw.exp_modules) * (1 + run_->hw.mac_exp_cycles + 2 + 2 * run_->shape.v_dim);
}

int64_t Costs::Finish1D(int64_t rows) const { return CeilDiv(rows, run_->hw.exp_modules) * run_->shape.v_dim; }

double Costs::Exponentials(int64_t rows, int64_t keys) const {
  const double scores = static_cast<double>(rows) * static_cast<double>(keys);
  const bool corrects = run_->tile().dataflow == Dataflow::kQueryResident;
  return scores + (corrects ? static_cast<double>(rows) : 0);
}

int64_t Costs::Transfer(int64_t words) const {
  const bool demand = run_->dataflow == HwDataflow::kFlat || run_->dataflow == HwDataflow::kStandard;
  const double rate = run_->hw.bytes_per_cycle() * (demand ? run_->hw.demand_efficiency : 1.0);
  const double cycles = static_cast<double>(words) * static_cast<double>(run_->hw.element_bytes) / rate;
  return static_cast<int64_t>(std::ceil(cycles * (1 - 1e-12)));  // 12.000000000000002 cycles are 12
}

}  // namespace attenio::hw
