#include "cli/bench_input.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <random>

#include "base/bits.h"
#include "exec/shape.h"

namespace attenio::cli {
namespace {

const std::vector<std::string> kDistributions = {"uniform", "normal", "outlier", "llm", "bounded", "clustered"};
const std::vector<std::string> kMasks = {"bool", "f32", "bf16", "f16"};

using Engine = std::mt19937_64;

// Rows (batch, head, position) of q or k: fills `row` with dim values.
template <class Row>
void Fill(Tensor* t, DType dtype, Row row) {
  const int64_t dim = t->shape.back(), rows = dim > 0 ? t->elements() / dim : 0, length = t->shape[2];
  std::vector<float> values(static_cast<size_t>(dim));
  WithFloatType(dtype, [&](auto* type) {
    using T = std::remove_cvref_t<decltype(*type)>;
    for (int64_t r = 0; r < rows; ++r) {
      row(r % std::max<int64_t>(1, length), values);
      for (int64_t i = 0; i < dim; ++i) FromFloat(values[static_cast<size_t>(i)], t->data<T>() + r * dim + i);
    }
  });
}

void Normals(Engine* engine, float sigma, std::vector<float>& values) {
  std::normal_distribution<float> normal(0, sigma);
  for (float& v : values) v = normal(*engine);
}

// FlashAttention-3's test input: N(0, 1), and N(0, 100) added with probability 0.001.
void Outliers(Engine* engine, std::vector<float>& values) {
  Normals(engine, 1, values);
  std::bernoulli_distribution rare(0.001);
  std::normal_distribution<float> large(0, 10);
  for (float& v : values) {
    if (rare(*engine)) v += large(*engine);
  }
}

// Rotary positions turn pairs of a content vector that has a few large directions; key 0 is a sink: all queries like it.
void LlmRow(Engine* engine, bool keys, int64_t position, std::vector<float>& values) {
  const auto dim = static_cast<int64_t>(values.size());
  Normals(engine, 0.5f, values);
  for (int64_t i = 0; i < std::min<int64_t>(8, dim); ++i)
    values[static_cast<size_t>(dim - 1 - i)] *= 4;  // low rank, slow pairs
  for (int64_t i = 0; i + 1 < dim; i += 2) {
    const double angle =
        static_cast<double>(position) * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(dim));
    const auto c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
    float &x = values[static_cast<size_t>(i)], &y = values[static_cast<size_t>(i + 1)];
    const float turned = c * x - s * y;
    y = s * x + c * y;
    x = turned;
  }
  if (dim > 0 && !keys) values.back() = 4;
  if (dim > 0 && keys) values.back() = position == 0 ? 16.0f : -0.5f;
}

// Length sqrt(bound sqrt(dim)) on both sides, in random directions: |q.k| / sqrt(dim) <= bound.
void BoundedRow(Engine* engine, double bound, std::vector<float>& values) {
  Normals(engine, 1, values);
  double norm = 0;
  for (const float v : values) norm += static_cast<double>(v) * static_cast<double>(v);
  const double length = std::sqrt(bound * std::sqrt(static_cast<double>(values.size())));
  for (float& v : values) v = static_cast<float>(static_cast<double>(v) * length / std::sqrt(std::max(norm, 1e-30)));
}

// Sixteen centres of unit variance and small noise around them.
void ClusteredRow(Engine* engine, std::vector<float>& values) {
  Engine centre((*engine)() % 16);
  Normals(&centre, 1, values);
  std::normal_distribution<float> noise(0, 0.1f);
  for (float& v : values) v += noise(*engine);
}

void Distribute(const BenchInput& input, Problem* p) {
  if (input.dist == "uniform") return;
  for (Tensor* t : {&p->q, &p->k}) {
    const bool keys = t == &p->k;
    Engine engine(keys ? 2 : 1);
    Fill(t, p->desc.dtype, [&](int64_t position, std::vector<float>& values) {
      if (input.dist == "normal") return Normals(&engine, 1, values);
      if (input.dist == "outlier") return Outliers(&engine, values);
      if (input.dist == "llm") return LlmRow(&engine, keys, position, values);
      if (input.dist == "bounded") return BoundedRow(&engine, input.bound, values);
      ClusteredRow(&engine, values);
    });
  }
}

// One for all batch entries and heads, (1, 1, queries, keys). bool: every tenth key is left out; else N(0, 1) added.
void AddMask(const std::string& kind, Problem* p) {
  const AttentionDesc& d = p->desc;
  const DType dtype = kind == "bool" ? DType::kBool : ParseDType(kind, "--mask");
  if (d.q_len > (int64_t{1} << 31) / std::max<int64_t>(1, d.kv_len * ElementBytes(dtype))) {
    Refuse("--mask {}: {} x {} elements are more than 2 GiB; choose other --cases", kind, d.q_len, d.kv_len);
  }
  Tensor mask = MakeTensor(ToFileType(dtype), {1, 1, d.q_len, d.kv_len});
  Engine engine(3);
  if (dtype == DType::kBool) {
    for (std::byte& b : mask.bytes) b = static_cast<std::byte>(engine() % 10 != 0);
  } else {
    Fill(&mask, dtype, [&](int64_t, std::vector<float>& values) { Normals(&engine, 1, values); });
  }
  DescribeMask(p, std::move(mask));
}

}  // namespace

void BenchInput::AddTo(CLI::App& app) {
  app.add_option("--dist", dist, fmt::format("Distribution of q and k: {}", fmt::join(kDistributions, ", ")))
      ->capture_default_str();
  app.add_option("--bound", bound, "Largest |score| of --dist bounded (default 4)")->check(Real(0, 1e6));
  app.add_option("--window", window, "LEFT,RIGHT keys around the position, -1 = no limit");
  app.add_option("--mask", mask, "bool (a tenth of the keys left out), or f32, bf16, f16 (added)");
  app.add_option("--softcap", softcap, "s = softcap tanh(s / softcap)")->check(Real(0, FLT_MAX));
  app.add_flag("--sink", sink, "One extra logit per query head");
  app.add_flag("--alibi", alibi, "Scores fall with distance, 2^(-8 h / heads) per key");
}

void BenchInput::Check() const {
  const auto known = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (!known(kDistributions, dist)) Refuse("--dist {}: expected one of {}", dist, fmt::join(kDistributions, ", "));
  if (!mask.empty() && !known(kMasks, mask)) Refuse("--mask {}: expected one of {}", mask, fmt::join(kMasks, ", "));
  if (bound > 0 && dist != "bounded") Refuse("--bound {}: goes with --dist bounded", bound);
  AttentionDesc desc;
  if (!window.empty()) ParseWindow(window, &desc);
}

Problem MakeProblem(const BenchCase& bench_case, const BenchInput& input) {
  Problem p = MakeProblem(bench_case);
  BenchInput complete = input;
  if (complete.bound == 0) complete.bound = 4;
  Distribute(complete, &p);
  p.desc.softcap = input.softcap;
  if (!input.window.empty()) ParseWindow(input.window, &p.desc);
  if (!input.mask.empty()) AddMask(input.mask, &p);
  if (input.sink) {
    p.desc.sinks = true;
    p.sinks = MakeTensor(FileType::kF32, {p.desc.q_heads});
    for (int64_t h = 0; h < p.desc.q_heads; ++h) p.sinks->data<float>()[h] = static_cast<float>(h % 5) - 2;
  }
  if (input.alibi) {
    p.desc.alibi = true;
    p.alibi = MakeTensor(FileType::kF32, {p.desc.q_heads});
    for (int64_t h = 0; h < p.desc.q_heads; ++h) {
      p.alibi->data<float>()[h] =
          static_cast<float>(std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(p.desc.q_heads)));
    }
  }
  return p;
}

double AllowedFlops(const Problem& p) { return ShapeOf(p.desc).Flops(); }

}  // namespace attenio::cli
