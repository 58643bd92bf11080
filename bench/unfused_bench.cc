// Exact attention against the unfused oneDNN baseline, one after the other in every iteration so that machine noise meets both.
// Counters: median milliseconds of each, their ratio (above 1: attenio is faster); the label names oneDNN's implementations.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "api/validate.h"
#include "attenio/attention.h"
#include "base/bits.h"
#include "unfused/onednn.h"

namespace attenio {
namespace {

struct Case {
  const char* name;
  int64_t q_heads, kv_heads, q_len, kv_len, dim;
  bool causal;
  DType dtype;
  int64_t rows;  // of a chunk, 0 = the default
};

constexpr Case kCases[] = {
    {"pre-f32-d64-n512", 4, 4, 512, 512, 64, false, DType::kF32, 0},
    {"pre-f32-d64-n2048", 4, 4, 2048, 2048, 64, false, DType::kF32, 0},
    {"pre-f32-d128-n4096", 4, 4, 4096, 4096, 128, false, DType::kF32, 0},
    {"pre-f32-d128-n4096/rows32", 4, 4, 4096, 4096, 128, false, DType::kF32, 32},
    {"pre-f32-d128-n4096/rows256", 4, 4, 4096, 4096, 128, false, DType::kF32, 256},
    {"pre-f32-d128-n4096/whole", 4, 4, 4096, 4096, 128, false, DType::kF32, 4096},
    {"causal-f32-d128-n4096", 4, 4, 4096, 4096, 128, true, DType::kF32, 0},
    {"causal-f32-d128-n4096/rows256", 4, 4, 4096, 4096, 128, true, DType::kF32, 256},
    {"pre-bf16-d64-n2048", 4, 4, 2048, 2048, 64, false, DType::kBF16, 0},
    {"pre-bf16-d128-n4096", 4, 4, 4096, 4096, 128, false, DType::kBF16, 0},
    {"pre-bf16-d128-n4096/rows32", 4, 4, 4096, 4096, 128, false, DType::kBF16, 32},
    {"pre-bf16-d128-n4096/rows256", 4, 4, 4096, 4096, 128, false, DType::kBF16, 256},
    {"dec-f32-n8192", 32, 8, 1, 8192, 128, false, DType::kF32, 0},
    {"dec-bf16-n8192", 32, 8, 1, 8192, 128, false, DType::kBF16, 0},
};

std::vector<std::byte> Normal(int64_t elements, DType type) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::byte> bytes(static_cast<size_t>(elements * ElementBytes(type)));
  for (int64_t i = 0; i < elements; ++i) {
    WithFloatType(type, [&](auto* t) {
      FromFloat(normal(random), reinterpret_cast<std::remove_const_t<std::remove_pointer_t<decltype(t)>>*>(bytes.data()) + i);
    });
  }
  return bytes;
}

template <class F>
double Milliseconds(F f) {
  const auto start = std::chrono::steady_clock::now();
  if (!f().ok()) std::abort();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x.empty() ? 0 : x[x.size() / 2];
}

void ExactAgainstOneDnn(benchmark::State& state, const Case& c) {
  AttentionDesc desc;
  desc.q_heads = c.q_heads;
  desc.kv_heads = c.kv_heads;
  desc.q_len = c.q_len;
  desc.kv_len = c.kv_len;
  desc.qk_dim = desc.v_dim = c.dim;
  desc.causal = c.causal;
  desc.dtype = c.dtype;
  const DefaultExecutor executor;
  const Result<AttentionDesc> resolved = Resolve(desc);
  const Result<Plan> exact = Plan::Create(desc, {.workers = executor.workers()});
  if (!resolved.ok() || !exact.ok()) return state.SkipWithError("no plan");
  const auto onednn = unfused::OneDnnPlan::Create(*resolved, {.rows = c.rows, .workers = executor.workers()});
  if (!onednn.ok()) return state.SkipWithError(onednn.status().message());

  const auto q = Normal(c.q_heads * c.q_len * c.dim, c.dtype), k = Normal(c.kv_heads * c.kv_len * c.dim, c.dtype);
  const auto v = Normal(c.kv_heads * c.kv_len * c.dim, c.dtype);
  std::vector<std::byte> out(q.size()), exact_space(exact->workspace_bytes()), space(onednn->workspace_bytes());
  const Operands operands{.q = q.data(), .k = k.data(), .v = v.data(), .out = out.data()};
  std::vector<double> exact_ms, onednn_ms;
  for (auto _ : state) {
    exact_ms.push_back(Milliseconds([&] { return exact->Run(operands, exact_space, executor.parallel()); }));
    onednn_ms.push_back(Milliseconds([&] { return onednn->Run(operands, space, executor.parallel()); }));
  }
  state.counters["exact_ms"] = Median(exact_ms);
  state.counters["onednn_ms"] = Median(onednn_ms);
  state.counters["ratio"] = Median(onednn_ms) / Median(exact_ms);
  state.counters["threads"] = executor.workers();
  state.SetLabel(std::string(exact->kernel()) + " | " + onednn->kernel());
}

const bool kRegistered = [] {
  for (const Case& c : kCases) {
    benchmark::RegisterBenchmark(c.name, [&c](benchmark::State& state) { ExactAgainstOneDnn(state, c); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime()
        ->Iterations(c.q_len * c.kv_len > (int64_t{1} << 23) ? 5 : 20);
  }
  return true;
}();

}  // namespace
}  // namespace attenio
