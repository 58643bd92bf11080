// Polynomial attention and its parts: the state and apply loops in GFLOP/s of products (features x (v_dim + 1) per row).
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "approx/state.h"

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
    GetFeatureKernels().product({a, depth, 1, b, c, columns, rows, columns, depth});
    benchmark::ClobberMemory();
  }
  state.counters["gflops"] =
      benchmark::Counter(2e-9 * static_cast<double>(rows * columns * depth), benchmark::Counter::kIsIterationInvariantRate);
  for (float* p : {a, b, c}) std::free(p);
}

BENCHMARK(Product);
BENCHMARK(State)->Args({64, 2})->Args({32, 2})->Args({32, 3})->Args({16, 4})->Args({64, 3});
BENCHMARK(Apply)->Args({64, 2})->Args({32, 2})->Args({32, 3})->Args({16, 4})->Args({64, 3});

}  // namespace
}  // namespace attenio::approx
