// Every f32 kernel of this build that this machine runs, called directly block by block, against f64.
#include "kernels/f32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/bits.h"
#include "base/math.h"
#include "support/problem.h"

namespace attenio {
namespace {

using testing::Buffer;
using testing::Random;

constexpr double kLog2e = 1.4426950408889634;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rows and keys of one head, with everything that a kernel may be told about them.
struct Case {
  int64_t rows = 1, keys = 1, qk_dim = 1, v_dim = 1;
  int64_t block_keys = 128;
  DType dtype = DType::kF32;
  int64_t element = 1;
  double scale = 1;
  float softcap = 0;
  std::vector<float> slope = {};
  std::vector<int64_t> position = {}, begin = {}, end = {};
  Buffer mask = {};  // rows x mask_keys, `mask_element` apart
  int64_t mask_keys = 0, mask_element = 1;
  Buffer q = {}, k = {}, v = {};

  void Fill(Random& random) {
    const auto normal = [&](int64_t n) {
      Buffer b(dtype, n * element);
      for (int64_t i = 0; i < n; ++i) b.Set(i * element, random.Normal());
      return b;
    };
    q = normal(rows * qk_dim);
    k = normal(keys * qk_dim);
    v = normal(keys * v_dim);
  }
  bool natural() const { return softcap != 0 || !slope.empty() || mask.size() != 0; }
  double Q(int64_t r, int64_t c) const { return q.Get((r * qk_dim + c) * element); }
  double K(int64_t j, int64_t c) const { return k.Get((j * qk_dim + c) * element); }
  double V(int64_t j, int64_t c) const { return v.Get((j * v_dim + c) * element); }

  // Modified score in natural units; false when the key is excluded.
  bool Score(int64_t r, int64_t j, double* score, double* magnitude) const {
    if (!begin.empty() && (j < begin[r] || j >= end[r])) return false;
    double s = 0;
    *magnitude = 0;
    for (int64_t c = 0; c < qk_dim; ++c) {
      s += Q(r, c) * K(j, c);
      *magnitude += std::abs(scale * Q(r, c) * K(j, c));
    }
    s *= scale;
    if (softcap != 0) s = softcap * std::tanh(s / softcap);
    if (!slope.empty()) s += double{slope[r]} * static_cast<double>(j - position[r]);
    if (mask.size() != 0) {
      if (j >= mask_keys) return false;
      const double m = mask.Get((r * mask_keys + j) * mask_element);
      if (mask.type() == DType::kBool ? m == 0 : m == -std::numeric_limits<double>::infinity()) return false;
      if (mask.type() != DType::kBool) s += m;
    }
    *score = s;
    return true;
  }
};

struct Outcome {
  std::vector<float> out, lse;
};

template <class T>
T* Aligned(std::vector<T>& storage, int64_t bytes) {
  storage.assign(static_cast<size_t>(bytes) / sizeof(T) + 64, T{});
  return storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64 / sizeof(T);
}

RowView Rows(const Buffer& b, int64_t dim, int64_t element) {
  return {.base = b.data(), .dtype = b.type(), .outer = dim * element, .element = element};
}

// Rows [first, first + count) of the case, key block after key block.
Outcome RunRows(const KernelSet& kernel, const Case& c, int64_t first, int64_t count) {
  std::vector<float> q_store, k_store, v_store, scratch_store, out_store;
  const int64_t stride = RoundUp(c.v_dim, kernel.quantum.dims);
  const int64_t padded_keys = RoundUp(c.block_keys, kernel.quantum.keys);
  float* q = Aligned(q_store, RoundUp(count, kernel.quantum.rows) * kernel.q_row_bytes(c.qk_dim));
  float* k = Aligned(k_store, padded_keys * kernel.k_row_bytes(c.qk_dim));
  float* v = Aligned(v_store, padded_keys * kernel.v_row_bytes(c.v_dim));
  float* scratch = Aligned(scratch_store, kernel.scratch_bytes(count, c.block_keys, c.qk_dim, c.v_dim));
  float* out = Aligned(out_store, count * stride * 4);
  std::vector<float> max(static_cast<size_t>(count), -kInfinity), sum(static_cast<size_t>(count), 0.0f);

  const double unit = c.natural() ? 1 : kLog2e;
  kernel.pack_q({.source = Rows(c.q, c.qk_dim, c.element).From(first), .rows = count, .dim = c.qk_dim,
                 .multiplier = static_cast<float>(c.scale * unit), .packed = q});
  Modifiers m;
  m.softcap = c.softcap;
  if (!c.slope.empty()) m.slope = c.slope.data() + first;
  if (!c.position.empty()) m.position = c.position.data() + first;
  if (!c.begin.empty()) m.begin = c.begin.data() + first, m.end = c.end.data() + first;
  if (c.mask.size() != 0) {
    m.mask = Rows(c.mask, c.mask_keys, c.mask_element).From(first);
    m.mask_keys = c.mask_keys;
  }
  for (int64_t key = 0; key < c.keys; key += c.block_keys) {
    const int64_t keys = std::min(c.block_keys, c.keys - key);
    kernel.pack_k({.source = Rows(c.k, c.qk_dim, c.element).From(key), .rows = keys, .dim = c.qk_dim, .packed = k});
    const bool finite = kernel.pack_v(
        {.source = Rows(c.v, c.v_dim, c.element).From(key), .rows = keys, .dim = c.v_dim, .packed = v});
    int64_t lo = 0, hi = keys;  // what the rows of this strip need, as an executor would say
    if (!c.begin.empty()) {
      lo = std::clamp(*std::min_element(m.begin, m.begin + count) - key, int64_t{0}, keys);
      hi = std::clamp(*std::max_element(m.end, m.end + count) - key, lo, keys);
    }
    const bool modified = c.natural() || !c.begin.empty();
    kernel.block({.q = q, .k = k, .v = v, .out = out, .max = max.data(), .sum = sum.data(), .scratch = scratch,
                  .rows = count, .block_keys = keys, .keys_begin = lo, .keys_end = hi, .first_key = key,
                  .qk_dim = c.qk_dim, .v_dim = c.v_dim, .out_stride = stride,
                  .exp_scale = c.natural() ? static_cast<float>(kLog2e) : 1.0f, .finite_v = finite,
                  .modifiers = modified ? &m : nullptr});
  }
  Outcome o;
  o.out.resize(static_cast<size_t>(count * c.v_dim));
  o.lse.resize(static_cast<size_t>(count));
  FinishRows({.out = out, .max = max.data(), .sum = sum.data(), .out_stride = stride, .rows = count, .v_dim = c.v_dim,
              .exp_scale = c.natural() ? static_cast<float>(kLog2e) : 1.0f, .sink = nullptr,
              .target = {.base = o.out.data(), .dtype = DType::kF32, .outer = c.v_dim},
              .lse = {.base = o.lse.data(), .dtype = DType::kF32, .outer = 1}});
  return o;
}

// One row against f64 by the tolerance rule; returns the largest error / bound.
double ExpectRow(const Case& c, int64_t r, const float* out, float lse, const std::string& what) {
  std::vector<double> p(static_cast<size_t>(c.keys), 0.0);
  std::vector<bool> allowed(static_cast<size_t>(c.keys));
  double max = -kInfinity, largest = 0, sum = 0;
  for (int64_t j = 0; j < c.keys; ++j) {
    double magnitude = 0;
    allowed[j] = c.Score(r, j, &p[j], &magnitude);
    if (!allowed[j]) continue;
    max = std::max(max, p[j]);
    largest = std::max(largest, magnitude);
  }
  const bool any = std::find(allowed.begin(), allowed.end(), true) != allowed.end();
  for (int64_t j = 0; j < c.keys; ++j) sum += p[j] = allowed[j] ? std::exp(p[j] - max) : 0;
  double worst = 0;
  for (int64_t d = 0; d < c.v_dim; ++d) {
    double o = 0, a = 0;
    for (int64_t j = 0; j < c.keys; ++j) {
      if (!allowed[j]) continue;
      o += p[j] / sum * c.V(j, d);
      a += p[j] / sum * std::abs(c.V(j, d));
    }
    const double u = UnitRoundoff(DType::kF32), bound = u * std::abs(o) + 2 * u * a + 16 * u * (1 + largest) * a;
    const double error = std::abs(out[d] - o);
    if (std::isnan(o)) {
      EXPECT_TRUE(std::isnan(out[d])) << what << " row " << r << " dim " << d << ": " << out[d];
    } else if (std::isinf(o)) {
      EXPECT_EQ(out[d], o) << what << " row " << r << " dim " << d;
    } else {
      EXPECT_LE(error, bound) << what << " row " << r << " dim " << d << ": " << out[d] << " for " << o;
      if (bound > 0) worst = std::max(worst, error / bound);
    }
  }
  const double expected = any ? max + std::log(sum) : -kInfinity;
  if (std::isfinite(expected)) {
    EXPECT_NEAR(lse, expected, 16 * 0x1p-24 * (1 + largest + std::abs(expected))) << what << " row " << r;
  } else {
    EXPECT_EQ(std::isnan(lse), std::isnan(expected)) << what << " row " << r;
  }
  return worst;
}

double ExpectMatches(const KernelSet& kernel, const Case& c, const std::string& what) {
  const Outcome o = RunRows(kernel, c, 0, c.rows);
  double worst = 0;
  for (int64_t r = 0; r < c.rows; ++r) {
    worst = std::max(worst, ExpectRow(c, r, o.out.data() + r * c.v_dim, o.lse[r], std::string(kernel.name) + " " + what));
  }
  return worst;
}

// Bits, where NaN equals NaN and the sign of a zero does not count.
void ExpectSame(const float* a, const float* b, int64_t n, const std::string& what) {
  for (int64_t i = 0; i < n; ++i) EXPECT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << what << " " << i;
}

std::vector<const KernelSet*> Usable() {
  std::vector<const KernelSet*> usable;
  for (const KernelChoice& choice : F32Kernels()) {
    if (choice.kernel != nullptr) usable.push_back(choice.kernel);
  }
  return usable;
}

// Random limits, some rows without any key, some with one.
void AddLimits(Case* c, Random& random) {
  for (int64_t r = 0; r < c->rows; ++r) {
    const int64_t a = random.Integer(0, c->keys), b = random.Integer(0, c->keys);
    c->begin.push_back(std::min(a, b));
    c->end.push_back(random.Integer(0, 4) == 0 ? std::min(a, b) : std::max(a, b));
  }
}

void AddMask(Case* c, DType type, Random& random) {
  c->mask_keys = random.Integer(0, 3) == 0 ? random.Integer(1, c->keys) : c->keys;
  c->mask_element = random.Integer(0, 3) == 0 ? 2 : 1;
  c->mask = Buffer(type, c->rows * c->mask_keys * c->mask_element);
  for (int64_t i = 0; i < c->mask.size(); ++i) {
    const bool keep = random.Integer(0, 3) != 0;
    c->mask.Set(i, type == DType::kBool ? keep : keep ? random.Normal() : -kInfinity);
  }
}

Case RandomCase(Random& random) {
  static constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kBF16, DType::kF16};
  static constexpr DType kMaskTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kBool};
  Case c{.rows = random.Integer(1, 33), .keys = random.Integer(1, 300)};
  c.qk_dim = random.Integer(0, 1) ? random.Integer(0, 140) : 16 * random.Integer(1, 8);
  c.v_dim = random.Integer(0, 1) ? random.Integer(0, 140) : 16 * random.Integer(1, 8);
  c.block_keys = random.Integer(1, 3) * 64 - (random.Integer(0, 1) ? 0 : random.Integer(0, 63));
  c.dtype = kTypes[random.Integer(0, 3)];
  c.element = random.Integer(0, 4) == 0 ? 3 : 1;
  c.scale = c.qk_dim > 0 ? 1 / std::sqrt(static_cast<double>(c.qk_dim)) : 1;
  c.Fill(random);
  if (random.Integer(0, 2) == 0) c.softcap = static_cast<float>(0.5 + 5 * random.Uniform());
  for (int64_t r = 0; r < c.rows; ++r) c.position.push_back(random.Integer(-20, 200));
  if (random.Integer(0, 2) == 0) {
    for (int64_t r = 0; r < c.rows; ++r) c.slope.push_back(static_cast<float>(0.1 * random.Normal()));
  }
  if (random.Integer(0, 1) == 0) AddLimits(&c, random);
  if (random.Integer(0, 2) == 0) AddMask(&c, kMaskTypes[random.Integer(0, 3)], random);
  return c;
}

TEST(F32Kernels, HaveNamesAndReasons) {
  for (const KernelChoice& choice : F32Kernels()) {
    EXPECT_EQ(choice.kernel != nullptr, choice.reason.empty()) << choice.name;
    if (choice.kernel != nullptr) {
      EXPECT_STREQ(choice.kernel->name, choice.name);
    }
  }
#if defined(__x86_64__) || defined(__aarch64__)
  EXPECT_FALSE(Usable().empty());
#endif
}

TEST(F32Kernels, RandomCasesMatchF64) {
  for (const KernelSet* kernel : Usable()) {
    double worst = 0;
    for (uint64_t seed = 0; seed < 150; ++seed) {
      Random random(seed);
      worst = std::max(worst, ExpectMatches(*kernel, RandomCase(random), "seed " + std::to_string(seed)));
      if (::testing::Test::HasFailure()) return;
    }
    RecordProperty(std::string(kernel->name) + "_error_over_bound", std::to_string(worst));
    EXPECT_GT(worst, 0);
  }
}

// A row alone, in the middle of a strip, at the end: the same bits.
TEST(F32Kernels, RowsDoNotDependOnEachOther) {
  for (const KernelSet* kernel : Usable()) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      Random random(seed + 1000);
      const Case c = RandomCase(random);
      const std::string what = std::string(kernel->name) + " seed " + std::to_string(seed + 1000);
      const Outcome all = RunRows(*kernel, c, 0, c.rows);
      for (int64_t r = 0; r < c.rows; ++r) {
        const int64_t count = std::min(c.rows - r, random.Integer(1, 20));
        const Outcome some = RunRows(*kernel, c, r, count);
        ExpectSame(some.out.data(), all.out.data() + r * c.v_dim, count * c.v_dim, what + " row " + std::to_string(r));
        ExpectSame(some.lse.data(), all.lse.data() + r, count, what + " lse of row " + std::to_string(r));
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(F32Kernels, CommonHeadDims) {
  static constexpr int64_t kDims[][2] = {{1, 1}, {13, 37}, {32, 32}, {64, 64}, {72, 80}, {112, 112}, {192, 128}, {576, 512}};
  for (const KernelSet* kernel : Usable()) {
    for (const auto& dims : kDims) {
      Random random(7);
      Case c{.rows = 17, .keys = 150, .qk_dim = dims[0], .v_dim = dims[1], .scale = 1 / std::sqrt(double(dims[0]))};
      c.Fill(random);
      ExpectMatches(*kernel, c, std::to_string(dims[0]) + "/" + std::to_string(dims[1]));
    }
  }
}

// Excluded keys may hold anything; attended ones reach exactly the rows that attend them.
TEST(F32Kernels, NanAndInfinityStayWhereTheyBelong) {
  const float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const KernelSet* kernel : Usable()) {
    for (const float bad : {kNan, kInfinity, -kInfinity, 1e10f}) {
      for (const bool in_v : {false, true}) {
        Random random(11);
        Case c{.rows = 31, .keys = 200, .qk_dim = 24, .v_dim = 40, .scale = 0.2};
        c.Fill(random);
        for (int64_t r = 0; r < c.rows; ++r) {
          c.begin.push_back(0);
          c.end.push_back(100 + r);
        }
        (in_v ? c.v : c.k).Set(115 * (in_v ? c.v_dim : c.qk_dim) + 3, bad);
        ExpectMatches(*kernel, c, "key 115 holds " + std::to_string(bad) + (in_v ? " in V" : " in K"));
      }
    }
  }
}

TEST(F32Kernels, NanInQueryStaysInItsRow) {
  for (const KernelSet* kernel : Usable()) {
    Random random(12);
    Case c{.rows = 20, .keys = 70, .qk_dim = 16, .v_dim = 16};
    c.Fill(random);
    c.q.Set(5 * c.qk_dim + 2, std::nan(""));
    ExpectMatches(*kernel, c, "NaN in q");
  }
}

TEST(F32Kernels, RowWithoutKeysIsZeroWhateverItsQuery) {
  for (const KernelSet* kernel : Usable()) {
    Random random(13);
    Case c{.rows = 20, .keys = 70, .qk_dim = 16, .v_dim = 16};
    c.Fill(random);
    c.begin.assign(20, 0);
    c.end.assign(20, 70);
    c.end[5] = 0;
    c.q.Set(5 * c.qk_dim + 2, std::nan(""));
    const Outcome o = RunRows(*kernel, c, 0, c.rows);
    for (int64_t d = 0; d < c.v_dim; ++d) EXPECT_EQ(o.out[5 * c.v_dim + d], 0);
    EXPECT_EQ(o.lse[5], -kInfinity);
  }
}

// A whole block of -inf before the first allowed key, and rows that a mask of lowest floats covers.
TEST(F32Kernels, MasksOfMinusInfinityAndLowest) {
  for (const KernelSet* kernel : Usable()) {
    for (const bool lowest : {false, true}) {
      Random random(14);
      Case c{.rows = 9, .keys = 160, .qk_dim = 16, .v_dim = 16, .block_keys = 64};
      c.Fill(random);
      c.mask_keys = c.keys;
      c.mask = Buffer(DType::kF32, c.rows * c.keys);
      for (int64_t r = 0; r < c.rows; ++r) {
        for (int64_t j = 0; j < c.keys; ++j) {
          const double value = lowest ? std::numeric_limits<float>::lowest() : -kInfinity;
          c.mask.Set(r * c.keys + j, r % 2 == 0 || j < 100 ? value : 0.0);
        }
      }
      const Outcome o = RunRows(*kernel, c, 0, c.rows);
      if (!lowest) {
        ExpectMatches(*kernel, c, "-inf");
        continue;
      }
      double mean = 0;
      for (int64_t j = 0; j < c.keys; ++j) mean += c.V(j, 0) / static_cast<double>(c.keys);
      EXPECT_NEAR(o.out[0], mean, 1e-5) << kernel->name;  // not 0, not NaN
    }
  }
}

TEST(F32Kernels, LargeScoresFlushSmallProbabilities) {
  for (const KernelSet* kernel : Usable()) {
    Random random(15);
    Case c{.rows = 20, .keys = 300, .qk_dim = 64, .v_dim = 16, .scale = 10};
    c.Fill(random);
    ExpectMatches(*kernel, c, "scale 10");
  }
}

}  // namespace
}  // namespace attenio
