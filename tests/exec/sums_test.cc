// Long sums of equal terms: broadcast values under near-uniform weights drift instead of averaging out their rounding errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "api/oracle.h"
#include "support/problem.h"

namespace attenio {
namespace {

using testing::ExpectMatchesOracle;
using testing::Problem;
using testing::Random;
using testing::RunPlan;
using testing::UsableKernels;

// Relative error, in units of u(f32), of `blocks` sums of `block` terms equal to `term`, added up in f32.
double Drift(float term, int64_t block, int64_t blocks) {
  float total = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    float sum = 0;
    for (int64_t j = 0; j < block; ++j) sum += term;
    total += sum;
  }
  const double want = double{term} * static_cast<double>(block * blocks);
  return std::abs(total - want) / want * 0x1p24;
}

TEST(Sums, DriftOfEqualTermsIsAsAnalysed) {
  for (const auto& [block, blocks] :
       {std::pair<int64_t, int64_t>{50, 1}, {96, 1}, {256, 1}, {64, 32}, {96, 43}, {128, 128}, {256, 4}}) {
    double worst = 0;
    for (int i = 0; i < 1000; ++i)
      worst = std::max(worst, Drift(1 + static_cast<float>(i) * 0x1.07p-10f, block, blocks));
    EXPECT_LE(worst, SumDrift(block * blocks)) << block << " x " << blocks;
    if (blocks == 1) {
      EXPECT_GE(worst, 0.5 * SumDrift(block)) << block;  // not a bound for its own sake
    }
  }
}

// Values that are the same for every key, weights within `spread` of each other.
void Broadcast(Problem* p, double spread) {
  Random random(3);
  const AttentionDesc& d = p->desc;
  for (int64_t i = 0; i < p->q.size(); ++i) p->q.Set(i, spread * p->q.Get(i));
  for (int64_t c = 0; c < d.v_dim; ++c) {
    const double value = 1 + random.Uniform();
    for (int64_t j = 0; j < d.kv_len; ++j) p->v.Set(p->VIndex(0, 0, j, c), value);
  }
}

TEST(Sums, BroadcastValuesUnderNearUniformWeights) {
  for (DType type : {DType::kF32, DType::kBF16}) {
    AttentionDesc d;
    d.q_len = 15;
    d.qk_dim = d.v_dim = 64;
    d.dtype = type;
    d.out_dtype = DType::kF32;  // bf16 would hide the sum's error behind its own rounding
    d.lse = true;
    for (const int64_t keys : {96, 136, 1000, 4096}) {
      d.kv_len = keys;
      for (const double spread : {0.0, 1e-4, 0.05}) {
        for (const std::string& kernel : UsableKernels(d)) {
          Problem p(d, 1);
          Broadcast(&p, spread);
          Options options;
          options.kernel = kernel;
          RunPlan(&p, options);
          ExpectMatchesOracle(p, kernel + ", " + std::to_string(keys) + " keys, spread " + std::to_string(spread));
          if (HasFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace attenio
