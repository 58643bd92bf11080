#include "cli/bench_case.h"

#include <fstream>
#include <sstream>

#include "base/bits.h"
#include "base/math.h"
#include "cli/command.h"

namespace attenio::cli {
namespace {

struct Row {
  const char* name;
  int64_t batch, q_heads, kv_heads, q_len, kv_len, qk_dim, v_dim;
  bool causal;
  DType dtype;
};

// name, batch, query heads, KV heads, queries, keys, dims of q k and v, causal, type. pre: prefill; dec, bdec: one query;
// cross, odd, gemma, gqa, base: shapes of real models.
constexpr Row kRows[] = {
    {"start-f32-d64-n4096", 1, 8, 8, 4096, 4096, 64, 64, false, DType::kF32},
    {"pre-f32-d64-n512", 1, 4, 4, 512, 512, 64, 64, false, DType::kF32},
    {"pre-f32-d64-n2048", 1, 4, 4, 2048, 2048, 64, 64, false, DType::kF32},
    {"pre-f32-d64-n4096", 1, 4, 4, 4096, 4096, 64, 64, false, DType::kF32},
    {"pre-f32-d64-n16384", 1, 1, 1, 16384, 16384, 64, 64, false, DType::kF32},
    {"pre-f32-d128-n512", 1, 4, 4, 512, 512, 128, 128, false, DType::kF32},
    {"pre-f32-d128-n2048", 1, 4, 4, 2048, 2048, 128, 128, false, DType::kF32},
    {"pre-f32-d128-n4096", 1, 4, 4, 4096, 4096, 128, 128, false, DType::kF32},
    {"pre-f32-d128-n16384", 1, 1, 1, 16384, 16384, 128, 128, false, DType::kF32},
    {"pre-bf16-d64-n512", 1, 4, 4, 512, 512, 64, 64, false, DType::kBF16},
    {"pre-bf16-d64-n2048", 1, 4, 4, 2048, 2048, 64, 64, false, DType::kBF16},
    {"pre-bf16-d64-n4096", 1, 4, 4, 4096, 4096, 64, 64, false, DType::kBF16},
    {"pre-bf16-d64-n16384", 1, 1, 1, 16384, 16384, 64, 64, false, DType::kBF16},
    {"pre-bf16-d128-n512", 1, 4, 4, 512, 512, 128, 128, false, DType::kBF16},
    {"pre-bf16-d128-n2048", 1, 4, 4, 2048, 2048, 128, 128, false, DType::kBF16},
    {"pre-bf16-d128-n4096", 1, 4, 4, 4096, 4096, 128, 128, false, DType::kBF16},
    {"pre-bf16-d128-n16384", 1, 1, 1, 16384, 16384, 128, 128, false, DType::kBF16},
    {"pre-f16-d64-n512", 1, 4, 4, 512, 512, 64, 64, false, DType::kF16},
    {"pre-f16-d64-n2048", 1, 4, 4, 2048, 2048, 64, 64, false, DType::kF16},
    {"pre-f16-d64-n4096", 1, 4, 4, 4096, 4096, 64, 64, false, DType::kF16},
    {"pre-f16-d64-n16384", 1, 1, 1, 16384, 16384, 64, 64, false, DType::kF16},
    {"pre-f16-d128-n512", 1, 4, 4, 512, 512, 128, 128, false, DType::kF16},
    {"pre-f16-d128-n2048", 1, 4, 4, 2048, 2048, 128, 128, false, DType::kF16},
    {"pre-f16-d128-n4096", 1, 4, 4, 4096, 4096, 128, 128, false, DType::kF16},
    {"pre-f16-d128-n16384", 1, 1, 1, 16384, 16384, 128, 128, false, DType::kF16},
    {"causal-f32-d128-n4096", 1, 4, 4, 4096, 4096, 128, 128, true, DType::kF32},
    {"causal-bf16-d128-n4096", 1, 4, 4, 4096, 4096, 128, 128, true, DType::kBF16},
    {"gqa-bf16-d128-n1024", 1, 32, 8, 1024, 1024, 128, 128, false, DType::kBF16},
    {"gqa-f32-d128-n1024-causal", 1, 32, 8, 1024, 1024, 128, 128, true, DType::kF32},
    {"gqa-bf16-d128-n1024-causal", 1, 32, 8, 1024, 1024, 128, 128, true, DType::kBF16},
    {"dec-f32-n1024", 1, 32, 8, 1, 1024, 128, 128, false, DType::kF32},
    {"dec-f32-n8192", 1, 32, 8, 1, 8192, 128, 128, false, DType::kF32},
    {"dec-f32-n32768", 1, 32, 8, 1, 32768, 128, 128, false, DType::kF32},
    {"dec-bf16-n1024", 1, 32, 8, 1, 1024, 128, 128, false, DType::kBF16},
    {"dec-bf16-n8192", 1, 32, 8, 1, 8192, 128, 128, false, DType::kBF16},
    {"dec-bf16-n32768", 1, 32, 8, 1, 32768, 128, 128, false, DType::kBF16},
    {"dec-f16-n1024", 1, 32, 8, 1, 1024, 128, 128, false, DType::kF16},
    {"dec-f16-n8192", 1, 32, 8, 1, 8192, 128, 128, false, DType::kF16},
    {"dec-f16-n32768", 1, 32, 8, 1, 32768, 128, 128, false, DType::kF16},
    {"bdec-bf16-b8-n2048", 8, 32, 8, 1, 2048, 128, 128, false, DType::kBF16},
    {"cross-f32-b16-n128", 16, 12, 12, 128, 128, 64, 64, false, DType::kF32},
    {"cross-bf16-b16-n128", 16, 12, 12, 128, 128, 64, 64, false, DType::kBF16},
    {"odd-f32-d80-n1024", 1, 8, 8, 1024, 1024, 80, 80, false, DType::kF32},
    {"odd-f32-d96-n1024", 1, 8, 8, 1024, 1024, 96, 96, false, DType::kF32},
    {"odd-bf16-d80-n1024", 1, 8, 8, 1024, 1024, 80, 80, false, DType::kBF16},
    {"odd-bf16-d96-n1024", 1, 8, 8, 1024, 1024, 96, 96, false, DType::kBF16},
    {"gemma-bf16-d256-n2048", 1, 8, 4, 2048, 2048, 256, 256, false, DType::kBF16},
    {"gemma-bf16-d256-n2048-causal", 1, 8, 4, 2048, 2048, 256, 256, true, DType::kBF16},
    {"odd-bf16-dk192-dv128-n2048", 1, 8, 8, 2048, 2048, 192, 128, false, DType::kBF16},
    {"odd-bf16-d112-n1024", 1, 8, 8, 1024, 1024, 112, 112, false, DType::kBF16},
    {"base-bf16-d64-n1024", 1, 8, 8, 1024, 1024, 64, 64, false, DType::kBF16},
    {"base-bf16-d128-n1024", 1, 8, 8, 1024, 1024, 128, 128, false, DType::kBF16},
    {"base-f32-d64-n1024", 1, 8, 8, 1024, 1024, 64, 64, false, DType::kF32},
    {"base-f32-d128-n1024", 1, 8, 8, 1024, 1024, 128, 128, false, DType::kF32},
    {"base-bf16-d128-n2048", 1, 8, 8, 2048, 2048, 128, 128, false, DType::kBF16},
    {"causal-bf16-d128-n16384-h32", 1, 32, 32, 16384, 16384, 128, 128, true, DType::kBF16},
    {"long-bf16-d128-q4096-kv1m", 1, 1, 1, 4096, 1048576, 128, 128, false, DType::kBF16},
};

// Bijective mixing of 32 bits (the finaliser of MurmurHash3).
uint32_t Mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ x >> 16;
}

// Uniform in [-sqrt 3, sqrt 3).
float Value(uint32_t tensor, uint32_t element) {
  const uint32_t hash = Mix(element + tensor * 0x9e3779b9u);
  return (static_cast<float>(hash >> 8) * 0x1p-23f - 1.0f) * 1.7320508f;
}

Tensor Hashed(uint32_t tensor, DType dtype, std::vector<int64_t> shape) {
  Tensor t = MakeTensor(ToFileType(dtype), std::move(shape));
  WithFloatType(dtype, [&](auto* type) {
    using T = std::remove_cvref_t<decltype(*type)>;
    for (int64_t i = 0; i < t.elements(); ++i) FromFloat(Value(tensor, static_cast<uint32_t>(i)), t.data<T>() + i);
  });
  return t;
}

// The library bounds what it computes; this bounds what is allocated before it is asked.
bool Reasonable(const BenchCase& c) {
  for (int64_t size : {c.batch, c.q_heads, c.kv_heads, c.q_len, c.kv_len, c.qk_dim, c.v_dim}) {
    if (size < 1 || size > int64_t{1} << 31) return false;
  }
  return c.q_heads % c.kv_heads == 0;
}

}  // namespace

double BenchCase::Flops() const {
  const double all = 2.0 * static_cast<double>(batch * q_heads) * static_cast<double>(q_len) *
                     static_cast<double>(kv_len) * static_cast<double>(qk_dim + v_dim);
  return causal ? all / 2 : all;
}

double BenchCase::KvBytes() const {
  return static_cast<double>(batch * kv_heads) * static_cast<double>(kv_len) * static_cast<double>(qk_dim + v_dim) *
         static_cast<double>(ElementBytes(dtype));
}

std::vector<BenchCase> BuiltInCases() {
  std::vector<BenchCase> cases;
  for (const Row& r : kRows) {
    cases.push_back({r.name, r.batch, r.q_heads, r.kv_heads, r.q_len, r.kv_len, r.qk_dim, r.v_dim, r.causal, r.dtype});
  }
  return cases;
}

std::vector<BenchCase> ReadCases(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) Refuse("cannot read {}", path);
  std::vector<BenchCase> cases;
  for (int number = 2; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::istringstream words(line);
    BenchCase c;
    std::string dtype;
    int causal = 0;
    words >> c.name >> c.batch >> c.q_heads >> c.kv_heads >> c.q_len >> c.kv_len >> c.qk_dim >> c.v_dim >> causal >>
        dtype;
    if (!words || !Reasonable(c)) Refuse("{}:{}: expected name B Hq Hkv Nq Nkv D Dv causal dtype", path, number);
    c.causal = causal != 0;
    c.dtype = ParseDType(dtype, path.c_str());
    cases.push_back(c);
  }
  return cases;
}

Problem MakeProblem(const BenchCase& c) {
  Problem p;
  p.q = Hashed(0, c.dtype, {c.batch, c.q_heads, c.q_len, c.qk_dim});
  p.k = Hashed(1, c.dtype, {c.batch, c.kv_heads, c.kv_len, c.qk_dim});
  p.v = Hashed(2, c.dtype, {c.batch, c.kv_heads, c.kv_len, c.v_dim});
  DescribeQkv(&p, 0, 0);
  p.desc.causal = c.causal;
  AllocateOutputs(&p, c.dtype);
  return p;
}

std::vector<double> Signature(const BenchCase& c, const Tensor& out) {
  std::vector<double> signature;
  for (int64_t k = 0; k < 8; ++k) {
    const int64_t b = k % c.batch, h = (k * 5 + 1) % c.q_heads, i = (c.q_len - 1) * k / 7, e = (k * 37 + 3) % c.v_dim;
    signature.push_back(out.At(((b * c.q_heads + h) * c.q_len + i) * c.v_dim + e));
  }
  return signature;
}

}  // namespace attenio::cli
