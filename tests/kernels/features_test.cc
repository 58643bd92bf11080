#include "kernels/features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "approx/monomials.h"
#include "base/math.h"
#include "hwy/targets.h"

namespace attenio {
namespace {

using approx::Monomials;

// Runs `body` once per instruction set that this machine has.
template <class Body>
void ForEachTarget(Body body) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    body(GetFeatureKernels());
  }
  hwy::SetSupportedTargetsForTest(0);
}

struct Aligned {
  explicit Aligned(int64_t n, float fill = 0) : storage(n + 32, fill) {}
  float* data() {
    const auto address = reinterpret_cast<uintptr_t>(storage.data());
    return storage.data() + (RoundUp(static_cast<int64_t>(address), 64) - static_cast<int64_t>(address)) / 4;
  }
  float& operator[](int64_t i) { return data()[i]; }
  std::vector<float> storage;
};

TEST(Features, CountsArePinned) {
  EXPECT_EQ(FeatureCount(64, 1), 65);
  EXPECT_EQ(FeatureCount(64, 2), 2145);
  EXPECT_EQ(FeatureCount(64, 3), 47905);
  EXPECT_EQ(FeatureCount(32, 1), 33);
  EXPECT_EQ(FeatureCount(32, 2), 561);
  EXPECT_EQ(FeatureCount(32, 3), 6545);
  EXPECT_EQ(FeatureCount(32, 4), 58905);
  EXPECT_EQ(FeatureCount(16, 1), 17);
  EXPECT_EQ(FeatureCount(16, 2), 153);
  EXPECT_EQ(FeatureCount(16, 3), 969);
  EXPECT_EQ(FeatureCount(16, 4), 4845);
  EXPECT_EQ(FeatureCount(8, 1), 9);
  EXPECT_EQ(FeatureCount(8, 2), 45);
  EXPECT_EQ(FeatureCount(8, 3), 165);
  EXPECT_EQ(FeatureCount(8, 4), 495);
  EXPECT_EQ(FeatureCount(1000000, 12), INT64_MAX);
}

// Every monomial appears once: with x = distinct primes' logarithms as exponents the products are distinct.
TEST(Features, EveryMonomialOnceAndSmallerDegreesFirst) {
  for (const auto& [dims, degree, block] : {std::tuple{1, 5, 3}, {3, 4, 7}, {5, 3, 96}, {16, 2, 12}, {7, 1, 48}, {4, 0, 8}}) {
    const Monomials m(dims, degree, block);
    EXPECT_EQ(m.count(), FeatureCount(dims, degree));
    std::map<std::vector<int>, int> seen;
    int64_t feature = 0;
    int last_degree = 0;
    for (int64_t b = 0; b < m.blocks(); ++b) {
      EXPECT_EQ(m.first_feature(b), feature);
      for (int64_t i = 0; i < m.run_count(b); ++i) {
        const MonomialRun& run = m.runs(b)[i];
        for (int c = run.begin; c < run.end; ++c, ++feature) {
          EXPECT_EQ(run.panel_row + c - run.begin, feature - m.first_feature(b));
          std::vector<int> monomial(run.path, run.path + std::max<int>(run.depth, 0));
          if (run.depth >= 0) monomial.push_back(c);
          EXPECT_TRUE(std::is_sorted(monomial.begin(), monomial.end()));
          EXPECT_EQ(seen[monomial]++, 0);
          EXPECT_GE(static_cast<int>(monomial.size()), last_degree);
          last_degree = static_cast<int>(monomial.size());
        }
      }
      EXPECT_LE(m.block_features(b), block);
    }
    EXPECT_EQ(feature, m.count());
    for (int k = 1; k <= degree; ++k) {
      const int64_t end = m.blocks(k);
      EXPECT_EQ(m.first_feature(end - 1) + m.block_features(end - 1), m.count(k));
    }
  }
}

// sum_f phi_q(f) phi_k(f) = sum_k c_k (q.k)^k for every row, through the panels of both sides.
TEST(Features, InnerProductOfFeaturesIsThePolynomial) {
  std::mt19937_64 random(11);
  std::normal_distribution<float> normal;
  ForEachTarget([&](const FeatureKernels& kernels) {
    for (const auto& [dims, degree, block] : {std::tuple{1, 6, 4}, {3, 5, 20}, {8, 3, 48}, {17, 2, 96}, {64, 2, 96}}) {
      const int64_t width = 96, rows = 90;
      const Monomials m(dims, degree, block);
      Aligned q(dims * width), k(dims * width), scale((degree + 1) * width), stack((degree + 1) * width);
      Aligned pq(block * width), pk(block * width), dots(width);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < dims; ++c) {
          q[c * width + r] = normal(random) / std::sqrt(static_cast<float>(dims));
          k[c * width + r] = normal(random) / std::sqrt(static_cast<float>(dims));
        }
      }
      for (int64_t i = 0; i < (degree + 1) * width; ++i) scale[i] = normal(random);
      std::vector<double> sum(width);
      for (int64_t b = 0; b < m.blocks(); ++b) {
        PanelArgs args{.x = k.data(), .width = width, .rows = rows, .runs = m.runs(b), .run_count = m.run_count(b),
                       .stack = stack.data(), .panel = pk.data()};
        kernels.panel(args);
        std::vector<float> ones(block, 1.0f);
        args.x = q.data();
        args.degree_scale = scale.data();
        args.panel = pq.data();
        args.weights = ones.data();
        args.dots = dots.data();
        kernels.panel(args);
        for (int64_t f = 0; f < m.block_features(b); ++f) {
          for (int64_t r = 0; r < width; ++r) sum[r] += static_cast<double>(pq[f * width + r]) * pk[f * width + r];
        }
      }
      for (int64_t r = 0; r < width; ++r) {
        double x = 0, all = 0, absolute = 0, total = 0, want = 0, want_ones = 0;
        for (int64_t c = 0; c < dims; ++c) {
          x += static_cast<double>(q[c * width + r]) * k[c * width + r];
          absolute += std::abs(static_cast<double>(q[c * width + r]) * k[c * width + r]);
          all += q[c * width + r];
          total += std::abs(q[c * width + r]);
        }
        double bound = 0, bound_ones = 0;
        for (int j = 0; j <= degree && r < rows; ++j) {
          const double coefficient = scale[j * width + r];
          want += coefficient * std::pow(x, j);
          want_ones += coefficient * std::pow(all, j);
          bound += std::abs(coefficient) * std::pow(absolute, j);
          bound_ones += std::abs(coefficient) * std::pow(total, j);
        }
        ASSERT_NEAR(sum[r], want, 2e-6 * bound) << dims << " " << degree << " row " << r;
        // k = (1, ..., 1): the dot products with weights 1.
        ASSERT_NEAR(dots[r], want_ones, 2e-5 * bound_ones) << dims << " " << degree << " row " << r;
      }
    }
  });
}

TEST(Features, ProductMatchesPlainLoops) {
  std::mt19937_64 random(12);
  std::uniform_real_distribution<float> uniform(-1, 1);
  ForEachTarget([&](const FeatureKernels& kernels) {
    for (int64_t columns : {16, 32, 48, 64, 80, 144}) {
      for (const auto& [rows, depth] : {std::pair<int64_t, int64_t>{12, 1}, {24, 96}, {96, 7}, {36, 200}, {7, 5}}) {
        for (bool transposed : {false, true}) {
          const int64_t padded = RoundUp(rows, kRowQuantum);
          Aligned a(padded * depth), b(depth * columns), c(padded * columns), before(padded * columns);
          for (int64_t i = 0; i < padded * depth; ++i) a[i] = uniform(random);
          for (int64_t i = 0; i < depth * columns; ++i) b[i] = uniform(random);
          for (int64_t i = 0; i < padded * columns; ++i) before[i] = c[i] = uniform(random);
          ProductArgs args{.a = a.data(), .a_row = transposed ? 1 : depth, .a_k = transposed ? padded : 1, .b = b.data(),
                           .c = c.data(), .stride = columns, .rows = rows, .columns = columns, .depth = depth};
          kernels.product(args);
          for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < columns; ++j) {
              double sum = before[i * columns + j];
              for (int64_t k = 0; k < depth; ++k) {
                sum += static_cast<double>(a[i * args.a_row + k * args.a_k]) * b[k * columns + j];
              }
              ASSERT_NEAR(c[i * columns + j], sum, 1e-6 * static_cast<double>(depth + 2));
            }
          }
        }
      }
    }
  });
}

TEST(Features, WeightsAreExponentials) {
  std::mt19937_64 random(14);
  std::uniform_real_distribution<float> uniform(-20, 5);
  ForEachTarget([&](const FeatureKernels& kernels) {
    for (int64_t count : {1, 15, 16, 17, 40, 64}) {
      const int64_t rows = 3, stride = 64;
      Aligned scores(rows * stride);
      std::vector<float> before(rows * stride), shift = {0, 3.5f, -2}, sums = {1, 0, 0};
      for (int64_t i = 0; i < rows * stride; ++i) before[i] = scores[i] = uniform(random);
      kernels.weights({scores.data(), stride, rows, count, shift.data(), sums.data()});
      for (int64_t r = 0; r < rows; ++r) {
        double sum = r == 0 ? 1 : 0;
        for (int64_t j = 0; j < stride; ++j) {
          const double want = j < count ? std::exp2(static_cast<double>(before[r * stride + j]) - shift[r]) : 0;
          ASSERT_NEAR(scores[r * stride + j], want, 1e-6 * want);
          sum += want;
        }
        ASSERT_NEAR(sums[r], sum, 3e-6 * sum);
      }
    }
  });
}

TEST(Features, RowSums) {
  std::mt19937_64 random(13);
  ForEachTarget([&](const FeatureKernels& kernels) {
    for (int64_t width : {48, 96, 192}) {
      Aligned panel(5 * width);
      std::vector<float> sums(5, 3.0f);
      std::vector<double> want(5, 3.0);
      for (int64_t i = 0; i < 5 * width; ++i) {
        panel[i] = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
        want[i / width] += panel[i];
      }
      kernels.row_sums(panel.data(), width, 5, sums.data());
      for (int f = 0; f < 5; ++f) EXPECT_EQ(sums[f], want[f]);
    }
  });
}

}  // namespace
}  // namespace attenio
