#include "cli/accuracy_data.h"

#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "base/bits.h"
#include "cli/command.h"
#include "cli/tensor_file.h"

namespace attenio::cli {
namespace {

using Row = std::vector<double>;

// splitmix64 and Box-Muller: the same everywhere, which the distributions of <random> are not.
class Normals {
 public:
  explicit Normals(uint64_t seed) : state_(seed) {}
  double Uniform() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  }
  double Next() {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }
  Row Vector(int64_t d, double deviation = 1) {
    Row x(static_cast<size_t>(d));
    for (double& v : x) v = deviation * Next();
    return x;
  }
  Row Direction(int64_t d, double length) {
    Row x = Vector(d);
    double square = 0;
    for (double v : x) square += v * v;
    for (double& v : x) v *= length / std::sqrt(square);
    return x;
  }

 private:
  uint64_t state_;
};

// What a distribution draws: a row of q, k or v at a position.
struct Source {
  std::function<Row(int64_t)> q, k, v;
};

// Rotary position: coordinates (i, i + d / 2) turn by position / 10000^(2 i / d).
void Rotate(Row* x, int64_t position) {
  const size_t half = x->size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const double angle =
        static_cast<double>(position) * std::pow(1e4, -static_cast<double>(i) / static_cast<double>(half));
    const double a = (*x)[i], b = (*x)[i + half];
    (*x)[i] = a * std::cos(angle) - b * std::sin(angle);
    (*x)[i + half] = a * std::sin(angle) + b * std::cos(angle);
  }
}

Source LanguageModel(const DataOptions& o, Normals* normals) {
  const int64_t rank = std::max<int64_t>(1, o.d / 8);
  const auto basis = std::make_shared<std::vector<Row>>();
  for (int64_t i = 0; i < rank; ++i) basis->push_back(normals->Direction(o.d, std::sqrt(static_cast<double>(o.d))));
  const Row mean_q = normals->Vector(o.d), mean_k = normals->Vector(o.d);
  const auto low_rank = [=](const Row& mean) {
    Row x = normals->Vector(o.d, 0.1);
    for (size_t c = 0; c < x.size(); ++c) x[c] += mean[c];
    for (const Row& direction : *basis) {
      const double weight = normals->Next() / std::sqrt(static_cast<double>(rank));
      for (size_t c = 0; c < x.size(); ++c) x[c] += weight * direction[c];
    }
    return x;
  };
  const auto rotated = [](Row x, int64_t position) {
    Rotate(&x, position);
    return x;
  };
  return {.q = [=](int64_t i) { return rotated(low_rank(mean_q), i); },
          .k =
              [=](int64_t j) {
                if (j > 0) return rotated(low_rank(mean_k), j);
                Row sink = mean_q;  // position 0 turns nothing, and slow coordinates of the queries turn little
                for (double& x : sink) x *= 3;
                return sink;
              },
          .v = [=](int64_t j) { return normals->Vector(o.d, j == 0 ? 0.01 : 1); }};
}

Source Clusters(const DataOptions& o, Normals* normals) {
  const double root = std::sqrt(static_cast<double>(o.d));  // 1 / scale
  const auto centres = std::make_shared<std::vector<Row>>();
  // |scale q| = 1, so that q . centre has the deviation |centre| / sqrt(d).
  for (int i = 0; i < 64; ++i) centres->push_back(normals->Direction(o.d, o.between * root));
  return {.q = [=](int64_t) { return normals->Direction(o.d, root); },
          .k =
              [=](int64_t j) {
                Row x = normals->Direction(o.d, o.bound / 2);
                for (size_t c = 0; c < x.size(); ++c) x[c] += (*centres)[static_cast<size_t>(j % 64)][c];
                return x;
              },
          .v = [=](int64_t) { return normals->Vector(o.d); }};
}

Source SourceOf(const DataOptions& o, Normals* normals) {
  const auto same = [](const std::function<Row(int64_t)>& draw) { return Source{draw, draw, draw}; };
  if (o.distribution == "normal") return same([=](int64_t) { return normals->Vector(o.d); });
  if (o.distribution == "outlier") {
    return same([=](int64_t) {
      Row x = normals->Vector(o.d);
      for (double& v : x) v += normals->Uniform() < 0.001 ? 10 * normals->Next() : 0;
      return x;
    });
  }
  if (o.distribution == "llm") return LanguageModel(o, normals);
  if (o.distribution == "clustered") return Clusters(o, normals);
  const double length = std::sqrt(o.bound * std::sqrt(static_cast<double>(o.d)));
  Source sphere = same([=](int64_t) { return normals->Direction(o.d, length); });
  sphere.v = [=](int64_t) { return normals->Vector(o.d); };
  return sphere;
}

Tensor Fill(const DataOptions& o, int64_t heads, const std::function<Row(int64_t)>& draw) {
  Tensor t = MakeTensor(ToFileType(o.dtype), {1, heads, o.n, o.d});
  WithFloatType(o.dtype, [&](auto* type) {
    auto* out = t.data<std::remove_cvref_t<decltype(*type)>>();
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < o.n; ++i) {
        for (const double x : draw(i)) FromFloat(static_cast<float>(x), out++);
      }
    }
  });
  return t;
}

}  // namespace

const std::vector<std::string>& DistributionNames() {
  static const std::vector<std::string> names{"normal", "outlier", "llm", "bounded", "clustered"};
  return names;
}

bool TakesBound(const std::string& distribution) { return distribution == "bounded" || distribution == "clustered"; }

Problem Generate(const DataOptions& o) {
  Normals normals(o.seed);
  const Source source = SourceOf(o, &normals);
  Problem p;
  p.q = Fill(o, o.heads, source.q);
  p.k = Fill(o, o.kv_heads, source.k);
  p.v = Fill(o, o.kv_heads, source.v);
  DescribeQkv(&p, 0, 0);
  p.desc.causal = o.causal;
  AllocateOutputs(&p, DType::kF32);
  return p;
}

Problem ReadInput(const InputOptions& o) {
  if (o.files.size() != 1 && o.files.size() != 3)
    Refuse("--input: expected one .safetensors file with q, k and v, or three files; got {}", o.files.size());
  const auto read = [&](size_t i, const char* name) {
    Tensor t = ReadTensor(o.files[o.files.size() == 1 ? 0 : i], name);
    if (!o.dtype.empty()) return Convert(t, ToFileType(ParseDType(o.dtype, "--dtype")));
    return t.type == FileType::kF64 ? Convert(t, FileType::kF32) : t;
  };
  Problem p;
  p.q = read(0, "q");
  p.k = read(1, "k");
  p.v = read(2, "v");
  DescribeQkv(&p, o.heads, o.kv_heads);
  p.desc.causal = o.causal;
  AllocateOutputs(&p, DType::kF32);
  return p;
}

}  // namespace attenio::cli
