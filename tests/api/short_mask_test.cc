// A mask shorter than kv_len excludes the rest, down to a mask without any key, whose pointer may be null.
#include <gtest/gtest.h>

#include "support/problem.h"

namespace attenio {
namespace {

using testing::Problem;

TEST(ShortMask, ExcludesTheRest) {
  AttentionDesc d;
  d.batch = d.q_heads = 2;
  d.q_len = 5;
  d.kv_len = 9;
  d.qk_dim = 8;
  d.v_dim = 4;
  d.lse = true;
  for (const DType type : {DType::kBool, DType::kF32}) {
    for (const int64_t kv_len : {0, 1, 4, 8, 9}) {
      d.mask = {.dtype = type, .batch = 0, .head = 0, .query = kv_len, .key = 1, .kv_len = kv_len};
      for (const std::string& kernel : testing::UsableKernels(d)) {
        for (const char* schedule : {"", "3x4", "3x4 pack:block"}) {
          Problem p(d, static_cast<uint64_t>(kv_len));
          Options options;
          options.kernel = kernel;
          options.schedule = schedule;
          testing::RunPlan(&p, options);
          testing::ExpectMatchesOracle(p, kernel + " " + schedule);
          if (kv_len == 0) {
            EXPECT_EQ(p.Out(1, 1, 4, 3), 0.0) << kernel;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace attenio
