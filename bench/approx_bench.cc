// Polynomial attention and its parts: the state and apply loops in GFLOP/s of products (features x (v_dim + 1) per row).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "approx/state.h"
#include "attenio/approx.h"
#include "attenio/attention.h"
#include "base/bits.h"

namespace attenio::approx {
namespace {

float* AlignedFloats(int64_t n) { return static_cast<float*>(std::aligned_alloc(64, RoundUp(n * 4, 64))); }

struct Problem {
  Problem(int64_t d, int degree) : layout(d, d, degree) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    rows.resize(kKeyPanel * 16 * d);
    for (float& value : rows) value = normal(random) / static_cast<float>(d);
    const StateLayout& l = layout;
    z = AlignedFloats(l.floats(degree));
    scratch = AlignedFloats(l.scratch_floats());
    x = AlignedFloats(d * kKeyPanel);
    v = AlignedFloats(kKeyPanel * l.columns());
    den = AlignedFloats(kQueryPanel);
    coefficients = AlignedFloats((degree + 1) * kQueryPanel);
    std::fill_n(z, l.floats(degree), 0.0f);
    std::fill_n(coefficients, (degree + 1) * kQueryPanel, 0.5f);
  }
  ~Problem() {
    for (float* p : {z, scratch, x, v, den, coefficients}) std::free(p);
  }
  RowView View(int64_t first) { return {.base = rows.data(), .first = first, .outer = layout.monomials().dims()}; }

  StateLayout layout;
  std::vector<float> rows;
  float *z, *scratch, *x, *v, *den, *coefficients;
};

std::vector<float> Sphere(int64_t n, int64_t d) {
  static std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> rows(n * d);
  for (int64_t i = 0; i < n; ++i) {
    double square = 0;
    for (int64_t c = 0; c < d; ++c) square += std::pow(rows[i * d + c] = normal(random), 2);
    for (int64_t c = 0; c < d; ++c) rows[i * d + c] /= static_cast<float>(std::sqrt(square));
  }
  return rows;
}

template <class F>
double Seconds(F f) {
  const auto start = std::chrono::steady_clock::now();
  if (!f().ok()) std::abort();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x.empty() ? 0 : x[x.size() / 2];
}

void Report(benchmark::State& state, const StateLayout& l, int64_t rows) {
  state.counters["gflops"] = benchmark::Counter(
      2.0 * static_cast<double>(rows * l.monomials().count() * (l.v_dim() + 1)) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void State(benchmark::State& state) {
  Problem p(state.range(0), static_cast<int>(state.range(1)));
  const int64_t d = state.range(0);
  for (auto _ : state) {
    for (int64_t block = 0; block < 16; ++block) {
      const PanelSource source{.rows = p.View(block * kKeyPanel), .count = kKeyPanel};
      LoadTransposed(source, d, kKeyPanel, p.x);
      LoadRows(source, d, p.layout.columns(), kKeyPanel, p.v);
      AddKeys(p.layout, {p.x, p.v, kKeyPanel, static_cast<int>(state.range(1)), {0, p.layout.monomials().blocks()}, p.z, p.scratch});
    }
  }
  Report(state, p.layout, 16 * kKeyPanel);
}

void Apply(benchmark::State& state) {
  Problem p(state.range(0), static_cast<int>(state.range(1)));
  const int64_t d = state.range(0);
  for (auto _ : state) {
    const int degree = static_cast<int>(state.range(1));
    for (int64_t block = 0; block < 32; ++block) {
      LoadTransposed({.rows = p.View(block * kQueryPanel), .count = kQueryPanel}, d, kQueryPanel, p.x);
      std::fill_n(p.v, kQueryPanel * p.layout.columns(), 0.0f);
      std::fill_n(p.den, kQueryPanel, 0.0f);
      ApplyRows(p.layout, {p.x, p.coefficients, kQueryPanel, degree, degree, p.z, p.v, p.den, p.scratch});
    }
    benchmark::ClobberMemory();
  }
  Report(state, p.layout, 32 * kQueryPanel);
}

// The rate of the machine beside them: the product kernel on operands that stay in L1.
void Product(benchmark::State& state) {
  const int64_t rows = 24, columns = 64, depth = 48;
  float *a = AlignedFloats(rows * depth), *b = AlignedFloats(depth * columns), *c = AlignedFloats(rows * columns);
  std::fill_n(a, rows * depth, 0.5f);
  std::fill_n(b, depth * columns, 0.5f);
  std::fill_n(c, rows * columns, 0.0f);
  for (auto _ : state) {
    GetFeatureKernels().product({.a = a, .a_row = depth, .a_k = 1, .b = b, .c = c, .stride = columns, .rows = rows, .columns = columns, .depth = depth});
    benchmark::ClobberMemory();
  }
  state.counters["gflops"] =
      benchmark::Counter(2e-9 * static_cast<double>(rows * columns * depth), benchmark::Counter::kIsIterationInvariantRate);
  for (float* p : {a, b, c}) std::free(p);
}

// Whole calls, one after the other in every iteration so that machine noise meets both. q and k uniform on spheres with
// |scale| |q| |k| = 1; counters: median seconds of each, their ratio, the ratio of the flops, and the largest row error against
// exact attention over what is certified.
void ExactAgainstPolynomial(benchmark::State& state) {
  const int64_t n = state.range(0), d = state.range(1);
  const DType type = static_cast<DType>(state.range(2));
  AttentionDesc desc{};
  desc.q_len = desc.kv_len = n;
  desc.qk_dim = desc.v_dim = d;
  desc.dtype = type;
  desc.out_dtype = DType::kF32;
  desc.causal = state.range(3) != 0;
  std::vector<float> q = Sphere(n, d), k = Sphere(n, d), v = Sphere(n, d), exact_out(n * d), out(n * d);
  for (float& x : q) x *= std::sqrt(static_cast<float>(d));
  std::vector<BF16> q16(n * d), k16(n * d), v16(n * d);
  for (int64_t i = 0; i < n * d; ++i) {
    q16[i] = ToBF16(q[i]);
    k16[i] = ToBF16(k[i]);
    v16[i] = ToBF16(v[i]);
  }
  Operands operands{};
  operands.q = type == DType::kF32 ? static_cast<void*>(q.data()) : q16.data();
  operands.k = type == DType::kF32 ? static_cast<void*>(k.data()) : k16.data();
  operands.v = type == DType::kF32 ? static_cast<void*>(v.data()) : v16.data();
  ApproxOptions options;
  options.max_error = 0.025;
  options.workers = 1;
  Options exact_options;
  exact_options.workers = 1;
  const Result<Plan> exact = Plan::Create(desc, exact_options);
  const Result<ApproxPlan> poly = ApproxPlan::Create(desc, options);
  if (!exact.ok() || !poly.ok()) return state.SkipWithError("no plan");
  std::vector<std::byte> exact_space(exact->workspace_bytes()), space(poly->workspace_bytes());
  std::vector<double> exact_seconds, seconds;
  ApproxReport report;
  for (auto _ : state) {
    operands.out = exact_out.data();
    exact_seconds.push_back(Seconds([&] { return exact->Run(operands, exact_space); }));
    for (int i = 0; i < 3; ++i) {
      operands.out = out.data();
      seconds.push_back(Seconds([&] { return poly->Run(operands, space, SerialParallel(), &report); }));
    }
  }
  double worst = 0;
  for (int64_t i = 0; i < n * d; ++i) worst = std::max<double>(worst, std::abs(out[i] - exact_out[i]));
  double range = 1e30;
  for (int64_t c = 0; c < d; ++c) {
    float low = v[c], high = v[c];
    for (int64_t j = 0; j < n; ++j) {
      low = std::min(low, v[j * d + c]);
      high = std::max(high, v[j * d + c]);
    }
    range = std::min<double>(range, high - low);
  }
  const double r = static_cast<double>(report.features), pairs = exact->shape().Flops() / (2.0 * static_cast<double>(2 * d));
  state.counters["exact_s"] = Median(exact_seconds);
  state.counters["poly_s"] = Median(seconds);
  state.counters["speedup"] = Median(exact_seconds) / Median(seconds);
  state.counters["flop_ratio"] = 2 * static_cast<double>(d) * pairs / (2 * static_cast<double>(n) * r * static_cast<double>(d + 1));
  state.counters["predicted"] = report.predicted_gain;
  state.counters["degree"] = report.degree;
  state.counters["exact_rows"] = report.exact_fraction();
  state.counters["error_over_certified"] = worst / range / report.certified;
}

// kGroups against exact attention: 64 clusters of keys with a score spread of 1 inside, cluster scores of deviation range(1) / 10
// (0: unit normal keys without clusters), max_error = 10^-range(2).
void Groups(benchmark::State& state) {
  const int64_t n = state.range(0), d = 64;
  AttentionDesc desc{};
  desc.q_len = desc.kv_len = n;
  desc.qk_dim = desc.v_dim = d;
  std::vector<float> q = Sphere(n, d), k = Sphere(n, d), v = Sphere(n, d), centres = Sphere(64, d), out(n * d), exact_out(n * d);
  const float between = static_cast<float>(state.range(1)) / 10;
  for (int64_t i = 0; i < n * d; ++i) q[i] *= 8;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t c = 0; c < d; ++c) {
      float& x = k[j * d + c];
      x = between > 0 ? 0.5f * x + 8 * between * centres[j % 64 * d + c] : 8 * x;
    }
  }
  Operands operands{};
  operands.q = q.data();
  operands.k = k.data();
  operands.v = v.data();
  ApproxOptions options;
  options.method = ApproxMethod::kGroups;
  options.max_error = std::pow(10.0, -static_cast<double>(state.range(2)));
  options.workers = 1;
  Options exact_options;
  exact_options.workers = 1;
  const Result<Plan> exact = Plan::Create(desc, exact_options);
  const Result<ApproxPlan> groups = ApproxPlan::Create(desc, options);
  if (!exact.ok() || !groups.ok()) return state.SkipWithError("no plan");
  std::vector<std::byte> exact_space(exact->workspace_bytes()), space(groups->workspace_bytes());
  std::vector<double> exact_seconds, seconds;
  ApproxReport report;
  for (auto _ : state) {
    operands.out = exact_out.data();
    exact_seconds.push_back(Seconds([&] { return exact->Run(operands, exact_space); }));
    operands.out = out.data();
    seconds.push_back(Seconds([&] { return groups->Run(operands, space, SerialParallel(), &report); }));
  }
  const double pairs = static_cast<double>(std::max<int64_t>(1, report.blocks_skipped + report.blocks_poly + report.blocks_exact));
  double worst = 0;
  for (int64_t i = 0; i < n * d; ++i) worst = std::max<double>(worst, std::abs(out[i] - exact_out[i]));
  state.counters["exact_s"] = Median(exact_seconds);
  state.counters["groups_s"] = Median(seconds);
  state.counters["speedup"] = Median(exact_seconds) / Median(seconds);
  state.counters["predicted"] = report.predicted_gain;
  state.counters["skipped"] = static_cast<double>(report.blocks_skipped) / pairs;
  state.counters["poly"] = static_cast<double>(report.blocks_poly) / pairs;
  state.counters["exact"] = static_cast<double>(report.blocks_exact) / pairs;
  state.counters["exact_rows"] = report.exact_fraction();
  state.counters["error"] = worst;
}

BENCHMARK(Groups)
    ->ArgNames({"n", "between_x10", "digits"})
    ->ArgsProduct({{32768}, {10, 20, 40, 0}, {1, 2, 3}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(Product);
BENCHMARK(State)->Args({64, 2})->Args({32, 2})->Args({32, 3})->Args({16, 4})->Args({64, 3});
BENCHMARK(ExactAgainstPolynomial)
    ->ArgNames({"n", "d", "dtype", "causal"})
    ->Args({16384, 64, 0, 0})
    ->Args({65536, 64, 0, 0})
    ->Args({65536, 64, 1, 0})
    ->Args({65536, 64, 0, 1})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(Apply)->Args({64, 2})->Args({32, 2})->Args({32, 3})->Args({16, 4})->Args({64, 3});

}  // namespace
}  // namespace attenio::approx
