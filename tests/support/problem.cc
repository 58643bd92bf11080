#include "support/problem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "api/oracle.h"
#include "base/bits.h"
#include "kernels/kernels.h"
#include "support/emulated_tiles.h"

namespace attenio::testing {

void Buffer::Set(int64_t i, double value) {
  if (type_ == DType::kBool) {
    bytes_[static_cast<size_t>(i)] = std::byte{value != 0};
    return;
  }
  WithFloatType(type_, [&](auto* t) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(t)>>;
    FromFloat(static_cast<float>(value), reinterpret_cast<T*>(bytes_.data()) + i);
  });
}

double Buffer::Get(int64_t i) const {
  if (type_ == DType::kBool) return static_cast<double>(bytes_[static_cast<size_t>(i)]);
  return WithFloatType(type_, [&](auto* t) { return double{ToFloat(reinterpret_cast<decltype(t)>(bytes_.data())[i])}; });
}

uint64_t Random::Bits() {  // splitmix64
  uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

int64_t Random::Integer(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(Bits() % static_cast<uint64_t>(high - low + 1));
}

double Random::Uniform() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }

double Random::Normal() {
  const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
  return radius * std::cos(2 * std::numbers::pi * Uniform());
}

namespace {

// Elements that a strided tensor reaches over.
int64_t Reach(const Strides& s, int64_t batch, int64_t heads, int64_t rows, int64_t dim) {
  if (batch * heads * rows * dim == 0) return 0;
  const auto step = [](int64_t extent, int64_t stride) { return (extent - 1) * stride; };
  return 1 + step(batch, s.batch) + step(heads, s.head) + step(rows, s.row) + step(dim, s.element);
}

void Default(Strides* s, int64_t heads, int64_t rows, int64_t dim) {
  if (s->row == kContiguous) s->row = dim;
  if (s->head == kContiguous) s->head = rows * dim;
  if (s->batch == kContiguous) s->batch = heads * rows * dim;
}

Buffer Normal(DType type, int64_t elements, Random* random) {
  Buffer b(type, elements);
  for (int64_t i = 0; i < elements; ++i) b.Set(i, random->Normal());
  return b;
}

}  // namespace

Problem::Problem(const AttentionDesc& d, uint64_t seed) : desc(d) {
  Random random(seed);
  Default(&desc.q, d.q_heads, d.q_len, d.qk_dim);
  Default(&desc.k, d.kv_heads, d.kv_len, d.qk_dim);
  Default(&desc.v, d.kv_heads, d.kv_len, d.v_dim);
  Default(&desc.out, d.q_heads, d.q_len, d.v_dim);
  Default(&desc.lse_strides, d.q_heads, d.q_len, 1);
  q = Normal(d.dtype, Reach(desc.q, d.batch, d.q_heads, d.q_len, d.qk_dim), &random);
  k = Normal(d.dtype, Reach(desc.k, d.batch, d.kv_heads, d.kv_len, d.qk_dim), &random);
  v = Normal(d.dtype, Reach(desc.v, d.batch, d.kv_heads, d.kv_len, d.v_dim), &random);
  out = Buffer(d.out_dtype.value_or(d.dtype), Reach(desc.out, d.batch, d.q_heads, d.q_len, d.v_dim));
  for (int64_t i = 0; i < out.size(); ++i) out.Set(i, std::nan(""));  // an element that is not written shows
  if (d.mask.dtype) {
    MaskDesc& m = desc.mask;
    const int64_t keys = m.kv_len < 0 ? d.kv_len : m.kv_len;
    if (m.batch == 0 && m.head == 0 && m.query == 0) m = {m.dtype, d.q_heads * d.q_len * keys, d.q_len * keys, keys, 1, m.kv_len};
    mask = Normal(*m.dtype, Reach({m.batch, m.head, m.query, m.key}, d.batch, d.q_heads, d.q_len, keys), &random);
  }
  const auto floats = [&](bool wanted, int64_t n) {
    std::vector<float> values(static_cast<size_t>(wanted ? n : 0));
    for (float& x : values) x = static_cast<float>(random.Normal());
    return values;
  };
  alibi = floats(d.alibi, d.q_heads);
  sinks = floats(d.sinks, d.q_heads);
  lse.assign(static_cast<size_t>(d.lse ? Reach(desc.lse_strides, d.batch, d.q_heads, d.q_len, 1) : 0), std::nanf(""));
}

Operands Problem::operands() {
  return {q.data(), k.data(), v.data(), out.data(), mask.data(), alibi.data(), sinks.data(), lse.data()};
}

int64_t Problem::QIndex(int64_t b, int64_t h, int64_t i, int64_t c) const {
  return b * desc.q.batch + h * desc.q.head + i * desc.q.row + c * desc.q.element;
}
int64_t Problem::KIndex(int64_t b, int64_t h, int64_t j, int64_t c) const {
  return b * desc.k.batch + h * desc.k.head + j * desc.k.row + c * desc.k.element;
}
int64_t Problem::VIndex(int64_t b, int64_t h, int64_t j, int64_t c) const {
  return b * desc.v.batch + h * desc.v.head + j * desc.v.row + c * desc.v.element;
}
double Problem::Out(int64_t b, int64_t h, int64_t i, int64_t c) const {
  return out.Get(b * desc.out.batch + h * desc.out.head + i * desc.out.row + c * desc.out.element);
}

void RunPlan(Problem* problem, const Options& options, const Parallel& parallel) {
  Options o = options;
  if (o.workers == 0) o.workers = parallel.workers;
  const Result<Plan> plan = Plan::Create(problem->desc, o);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  problem->probability_type = plan->probability_type();
  std::vector<std::byte> workspace(plan->workspace_bytes(), std::byte{0xff});  // NaN where something is read before it is written
  const Status status = plan->Run(problem->operands(), workspace, parallel);
  ASSERT_TRUE(status.ok()) << status.message();
}

double ExpectMatchesOracle(Problem& p, const std::string& what) {
  const AttentionDesc& d = p.desc;
  const DType out_type = p.out.type();
  double worst = 0;
  for (int64_t b = 0; b < d.batch; ++b) {
    for (int64_t h = 0; h < d.q_heads; ++h) {
      for (int64_t i = 0; i < d.q_len; ++i) {
        const OracleRow row = ReferenceRow(d, p.operands(), b, h, i);
        const auto where = [&] { return what + " at batch " + std::to_string(b) + " head " + std::to_string(h) + " query " + std::to_string(i); };
        for (int64_t c = 0; c < d.v_dim; ++c) {
          const double got = p.Out(b, h, i, c), want = row.out[static_cast<size_t>(c)];
          if (std::isfinite(want)) {
            const double bound = ErrorBound(row, c, out_type, p.probability_type);
            EXPECT_LE(std::abs(got - want), bound) << where() << " dim " << c << ": " << got << " for " << want;
            if (bound > 0) worst = std::fmax(worst, std::abs(got - want) / bound);
          } else {
            EXPECT_FALSE(std::isfinite(got)) << where() << " dim " << c << ": " << got << " for " << want;
          }
          if (::testing::Test::HasFailure()) return worst;
        }
        if (!d.lse) continue;
        const double lse = p.lse[static_cast<size_t>(b * d.lse_strides.batch + h * d.lse_strides.head + i * d.lse_strides.row)];
        if (std::isfinite(row.lse)) {
          EXPECT_NEAR(lse, row.lse, (16 * (1 + row.score_bound + std::abs(row.lse)) + SumDrift(row.allowed)) * 0x1p-24) << where();
        } else {
          EXPECT_EQ(std::isnan(lse), std::isnan(row.lse)) << where() << ": " << lse;
          if (!std::isnan(row.lse)) {
            EXPECT_EQ(lse, row.lse) << where();
          }
        }
      }
    }
  }
  return worst;
}

std::vector<std::string> UsableKernels(const AttentionDesc& desc) {
  AddEmulatedAmxKernel();
  std::vector<std::string> all, usable;
  for (const KernelInfo& kernel : Kernels()) {
    if (kernel.available) all.push_back(kernel.name);
  }
  for (const KernelChoice& kernel : NamedKernels()) all.push_back(kernel.name);
  for (const std::string& name : all) {
    Options options;
    options.kernel = name;
    if (Plan::Create(desc, options).ok()) usable.push_back(name);
  }
  return usable;
}

}  // namespace attenio::testing
