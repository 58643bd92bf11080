#include "cli/kernel_rates.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "base/bits.h"
#include "base/math.h"
#include "cli/best_rate.h"

namespace attenio::cli {
namespace {

constexpr int64_t kKeys = 128;  // a key block as the solver makes them for these dims
// Two head dimensions tell what grows with the dim (products) from what does not (softmax). No head dimension that fills its
// last vector only in part: those cost whole vectors, which the model knows.
constexpr int64_t kShort = 64, kLong = 192;

class Lines {
 public:
  explicit Lines(int64_t bytes) : memory_(static_cast<size_t>(std::max<int64_t>(bytes, 1) + 64)) {
    data_ = memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
  }
  void* data() { return data_; }
  float* floats() { return reinterpret_cast<float*>(data_); }

 private:
  std::vector<std::byte> memory_;
  std::byte* data_;
};

// Normal numbers: uniform ones would spare softmax its rescaling.
std::vector<std::byte> Values(DType dtype, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count * ElementBytes(dtype)));
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  WithFloatType(dtype, [&](auto* type) {
    using T = std::remove_cvref_t<decltype(*type)>;
    T* values = reinterpret_cast<T*>(bytes.data());
    for (int64_t i = 0; i < count; ++i) FromFloat(normal(engine), values + i);
  });
  return bytes;
}

// One packed block of kKeys keys and a strip of rows, contiguous sources.
class Block {
 public:
  Block(const KernelSet& kernel, DType dtype, int64_t rows, int64_t dim)
      : kernel_(kernel),
        dim_(dim),
        dtype_(dtype),
        source_(Values(dtype, std::max(kKeys, rows) * dim)),
        q_(RoundUp(rows, kernel.quantum.rows) * kernel.q_row_bytes(dim)),
        k_(RoundUp(kKeys, kernel.quantum.keys) * kernel.k_row_bytes(dim)),
        v_(RoundUp(kKeys, kernel.quantum.keys) * kernel.v_row_bytes(dim)),
        out_(RoundUp(rows, kernel.quantum.rows) * RoundUp(dim, kernel.quantum.dims) * 4),
        state_(RoundUp(rows, kernel.quantum.rows) * 8),
        scratch_(
            kernel.scratch_bytes(RoundUp(rows, kernel.quantum.rows), RoundUp(kKeys, kernel.quantum.keys), dim, dim)) {
    kernel_.pack_q({.source = Source(), .rows = rows, .dim = dim, .multiplier = 0.125f, .packed = q_.data()});
    Pack();
    float* max = state_.floats();
    std::fill_n(max, rows, -std::numeric_limits<float>::infinity());
    args_ = {.q = q_.data(),
             .k = k_.data(),
             .v = v_.data(),
             .out = out_.floats(),
             .max = max,
             .sum = max + rows,
             .scratch = scratch_.data(),
             .rows = rows,
             .block_keys = kKeys,
             .keys_end = kKeys,
             .qk_dim = dim,
             .v_dim = dim,
             .out_stride = RoundUp(dim, kernel.quantum.dims),
             .score_scale = 0.125f};
  }

  void Pack() {
    kernel_.pack_k({.source = Source(), .rows = kKeys, .dim = dim_, .packed = k_.data()});
    kernel_.pack_v({.source = Source(), .rows = kKeys, .dim = dim_, .packed = v_.data()});
  }
  void Run() { kernel_.block(args_); }

 private:
  RowView Source() const { return {.base = source_.data(), .dtype = dtype_, .outer = dim_, .element = 1}; }

  const KernelSet& kernel_;
  int64_t dim_;
  DType dtype_;
  std::vector<std::byte> source_;
  Lines q_, k_, v_, out_, state_, scratch_;
  BlockArgs args_;
};

// Seconds of one score of a tile of `rows` rows. A full tile is measured in a strip of eight.
double ScoreSeconds(const KernelSet& kernel, DType dtype, int64_t rows, int64_t dim) {
  const int64_t strip = rows == kernel.quantum.rows ? 8 * rows : rows;
  Block block(kernel, dtype, strip, dim);
  return 1 / BestRate(static_cast<double>(strip * kKeys), [&] { block.Run(); });
}

TileRate MeasureTile(const KernelSet& kernel, DType dtype, int64_t rows) {
  const double brief = ScoreSeconds(kernel, dtype, rows, kShort), lengthy = ScoreSeconds(kernel, dtype, rows, kLong);
  // Four flops a dim: q k and p v. Noise must not make either part vanish.
  const double per_dim = std::clamp((lengthy - brief) / static_cast<double>(kLong - kShort),
                                    0.5 * lengthy / static_cast<double>(kLong), lengthy / static_cast<double>(kLong));
  const double rest = std::max(brief - per_dim * static_cast<double>(kShort), 0.01 * brief);
  return {.rows = rows, .product_flops = 4 / per_dim, .scores_per_second = 1 / rest};
}

}  // namespace

KernelRates MeasureKernel(const KernelSet& kernel) {
  KernelRates rates;
  rates.kernel = kernel.name;
  std::vector<DType> types;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (kernel.accepts(dtype, kShort, kShort) == nullptr &&
        (types.empty() || ElementBytes(types.back()) != ElementBytes(dtype)))
      types.push_back(dtype);
  }
  for (int64_t rows = 1; rows < kernel.quantum.rows; rows *= 2)
    rates.tiles.push_back(MeasureTile(kernel, types[0], rows));
  rates.tiles.push_back(MeasureTile(kernel, types[0], kernel.quantum.rows));
  for (const DType dtype : types) {
    Block block(kernel, dtype, 1, kShort);
    const auto bytes = static_cast<double>(2 * kKeys * kShort * ElementBytes(dtype));
    rates.packing.push_back({ElementBytes(dtype), BestRate(bytes, [&] { block.Pack(); })});
  }
  return rates;
}

}  // namespace attenio::cli
