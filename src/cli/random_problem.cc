#include "cli/random_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/bits.h"
#include "base/math.h"

namespace attenio::cli {
namespace {

constexpr std::byte kGap{0x55};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// splitmix64: small, and the same everywhere, which the distributions of <random> are not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>(Bits() % static_cast<uint64_t>(std::max<int64_t>(n, 1))); }
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  double Uniform() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }
  bool Chance(double p) { return Uniform() < p; }
  // Sum of four uniform numbers, variance 1: no library function, hence the same bits everywhere.
  double Normal() { return (Uniform() + Uniform() + Uniform() + Uniform() - 2) * 1.7320508075688772; }
  // Small sizes as often as large ones; both ends occur.
  int64_t Size(int64_t low, int64_t high) {
    if (Chance(0.4)) return Between(low, high);
    const int64_t top = Between(low, high);
    return Between(low, std::min(high, std::max(low, std::min<int64_t>(top, low + Below(top) / 4 + 16))));
  }

 private:
  uint64_t state_;
};

void Store(std::vector<std::byte>* bytes, DType type, int64_t i, double value) {
  std::byte* p = bytes->data() + i * ElementBytes(type);
  if (type == DType::kBool) {
    *p = static_cast<std::byte>(value != 0);
    return;
  }
  WithFloatType(type, [&](auto* t) {
    std::remove_cvref_t<decltype(*t)> element;
    FromFloat(static_cast<float>(value), &element);
    std::memcpy(p, &element, sizeof(element));
  });
}

struct Extents {
  int64_t batch, heads, rows, dim;
  int64_t Elements(const Strides& s) const {
    if (batch == 0 || heads == 0 || rows == 0 || dim == 0) return 0;
    return (batch - 1) * s.batch + (heads - 1) * s.head + (rows - 1) * s.row + (dim - 1) * s.element + 1;
  }
};

template <class F>
void ForEachElement(const Extents& e, const Strides& s, F f) {
  for (int64_t b = 0; b < e.batch; ++b) {
    for (int64_t h = 0; h < e.heads; ++h) {
      for (int64_t r = 0; r < e.rows; ++r) {
        for (int64_t c = 0; c < e.dim; ++c) f(b * s.batch + h * s.head + r * s.row + c * s.element, r);
      }
    }
  }
}

Extents QExtents(const AttentionDesc& d) { return {d.batch, d.q_heads, d.q_len, d.qk_dim}; }
Extents KExtents(const AttentionDesc& d) { return {d.batch, d.kv_heads, d.kv_len, d.qk_dim}; }
Extents VExtents(const AttentionDesc& d) { return {d.batch, d.kv_heads, d.kv_len, d.v_dim}; }
Extents OutExtents(const AttentionDesc& d) { return {d.batch, d.q_heads, d.q_len, d.v_dim}; }

constexpr const char* kNames[kFeatures] = {
    "f32",       "bf16",      "f16",       "f32-out",        "bhsd",        "bshd",         "padded",  "packed-qkv",
    "broadcast", "stride-2",  "gqa",       "mask-f32",       "mask-bf16",   "mask-f16",     "mask-bool", "mask-broadcast",
    "mask-short", "masked-rows", "causal", "negative-offset", "window",     "softcap",      "alibi",   "sinks",
    "lse",       "scale",     "offsets",   "kv-lens",        "poison",      "nan-query",    "empty"};

}  // namespace

const char* Name(Feature feature) { return kNames[static_cast<size_t>(feature)]; }

// Draws a problem in the order extents, bands, layouts, contents, mask.
class ProblemBuilder {
 public:
  ProblemBuilder(RandomProblem* p, uint64_t seed) : p_(*p), d_(p->desc_), random_(seed) {}

  void Build() {
    DrawTypes();
    DrawExtents();
    DrawModifiers();
    DrawLayouts();
    FillInputs();
    if (random_.Chance(0.35)) DrawMask();
    PoisonUnusedKeys();
    if (random_.Chance(0.05)) PoisonQuery();
    p_.desc_.offsets = p_.offsets_.empty() ? nullptr : p_.offsets_.data();
    p_.desc_.kv_lens = p_.kv_lens_.empty() ? nullptr : p_.kv_lens_.data();
  }

 private:
  void Set(Feature feature) { p_.features_[static_cast<size_t>(feature)] = true; }

  void DrawTypes() {
    const double kind = random_.Uniform();
    d_.dtype = kind < 0.4 ? DType::kF32 : kind < 0.7 ? DType::kBF16 : DType::kF16;
    Set(d_.dtype == DType::kF32 ? Feature::kF32 : d_.dtype == DType::kBF16 ? Feature::kBF16 : Feature::kF16);
    if (d_.dtype != DType::kF32 && random_.Chance(0.3)) {
      d_.out_dtype = DType::kF32;
      Set(Feature::kF32Out);
    }
  }

  void DrawExtents() {
    d_.kv_heads = random_.Between(1, 3);
    const int64_t group = random_.Chance(0.4) ? random_.Between(2, 4) : 1;
    if (group > 1) Set(Feature::kGqa);
    d_.q_heads = d_.kv_heads * group;
    d_.batch = random_.Between(1, 3);
    d_.q_len = random_.Chance(0.02) ? 0 : random_.Size(1, 300);
    d_.kv_len = random_.Chance(0.02) ? 0 : random_.Size(1, 2000);
    d_.qk_dim = random_.Size(1, 300);
    d_.v_dim = random_.Chance(0.5)    ? d_.qk_dim
               : random_.Chance(0.02) ? 0 : random_.Size(1, 300);
    if (random_.Chance(0.3)) DrawSmallSchedule();
    // Two thousand cases in about a minute with plain C++; one problem in fifty may be ten times as large.
    const double budget = random_.Chance(0.02) ? 3e8 : 3e7;
    while (d_.batch > 1 && Products() > budget) --d_.batch;
    while (d_.kv_heads > 1 && Products() > budget) d_.q_heads = --d_.kv_heads * group;
    while (Products() > budget) d_.q_len = CeilDiv(d_.q_len, 2);
    if (d_.q_len == 0 || d_.kv_len == 0 || d_.v_dim == 0) Set(Feature::kEmpty);
  }

  double Products() const {
    return static_cast<double>(d_.batch * d_.q_heads * d_.q_len * d_.kv_len) * static_cast<double>(d_.qk_dim + d_.v_dim);
  }

  // Tiles small enough for three key blocks and two query tiles, and lengths large enough.
  void DrawSmallSchedule() {
    d_.kv_len = std::max<int64_t>(d_.kv_len, random_.Between(9, 40));
    d_.q_len = std::max<int64_t>(d_.q_len, random_.Between(3, 12));
    const int64_t keys = random_.Between(1, std::min<int64_t>(64, (d_.kv_len - 1) / 2));
    const int64_t rows = random_.Between(1, std::min<int64_t>(48, d_.q_len - 1));
    p_.schedule_ = fmt::format("{}x{}{}", rows, keys, random_.Chance(0.5) ? " pack:block" : "");
  }

  void DrawModifiers() {
    d_.lse = random_.Chance(0.4);
    if (d_.lse) Set(Feature::kLse);
    if (random_.Chance(0.2)) {
      d_.scale = random_.Chance(0.1) ? 0.0 : 0.02 + random_.Uniform() * 0.5;
      Set(Feature::kScale);
    }
    if (random_.Chance(0.2)) {
      d_.softcap = 0.5 + random_.Uniform() * 30;
      Set(Feature::kSoftcap);
    }
    DrawBand();
    if (random_.Chance(0.15)) {
      for (int64_t h = 0; h < d_.q_heads; ++h) p_.alibi_.push_back(std::ldexp(1.0f, static_cast<int>(-2 - h % 7)));
      d_.alibi = true;
      Set(Feature::kAlibi);
    }
    if (random_.Chance(0.15)) {
      for (int64_t h = 0; h < d_.q_heads; ++h) p_.sinks_.push_back(static_cast<float>(2 * random_.Normal()));
      d_.sinks = true;
      Set(Feature::kSinks);
    }
  }

  int64_t DrawOffset() {
    const int64_t kind = random_.Below(4);
    if (kind == 0) return 0;
    if (kind == 1) return d_.kv_len - d_.q_len;
    return random_.Between(-d_.q_len - 3, d_.kv_len + 3);
  }

  void DrawBand() {
    d_.causal = random_.Chance(0.35);
    if (d_.causal) Set(Feature::kCausal);
    if (random_.Chance(0.25)) {
      d_.window_left = random_.Chance(0.2) ? kUnbounded : random_.Size(0, 300);
      d_.window_right = random_.Chance(0.3) ? kUnbounded : random_.Size(0, 300);
      Set(Feature::kWindow);
    }
    d_.offset = DrawOffset();
    bool negative = d_.offset < 0;
    if (random_.Chance(0.15)) {
      for (int64_t b = 0; b < d_.batch; ++b) p_.offsets_.push_back(DrawOffset());
      negative = *std::min_element(p_.offsets_.begin(), p_.offsets_.end()) < 0;
      Set(Feature::kOffsets);
    }
    if (negative && d_.causal) Set(Feature::kNegativeOffset);
    if (random_.Chance(0.15)) {
      for (int64_t b = 0; b < d_.batch; ++b) p_.kv_lens_.push_back(random_.Between(0, d_.kv_len));
      Set(Feature::kKvLens);
    }
  }

  // (batch, head, row, element) order, (batch, row, head, element) order, or either with gaps.
  Strides DrawStrides(const Extents& e) {
    const double kind = random_.Uniform();
    Strides s;
    s.element = random_.Chance(0.08) ? 2 : 1;
    if (s.element == 2) Set(Feature::kInnerStride2);
    const int64_t width = e.dim * s.element;
    const int64_t gap = kind >= 0.75 ? random_.Between(1, 9) : 0;
    if (gap > 0) Set(Feature::kPadded);
    if (kind < 0.4 || kind >= 0.87) {
      s.row = width + gap;
      s.head = e.rows * s.row + gap;
      s.batch = e.heads * s.head + gap;
      Set(Feature::kBhsd);
    } else {
      s.head = width + gap;
      s.row = e.heads * s.head + gap;
      s.batch = e.rows * s.row + gap;
      Set(Feature::kBshd);
    }
    return s;
  }

  Strides DrawKvStrides(const Extents& e) {
    Strides s = DrawStrides(e);
    if (!random_.Chance(0.08)) return s;
    Set(Feature::kBroadcastKv);
    (random_.Chance(0.4) ? s.batch : random_.Chance(0.7) ? s.head : s.row) = 0;
    return s;
  }

  void DrawLayouts() {
    d_.out = DrawStrides(OutExtents(d_));
    if (random_.Chance(0.1)) {
      DrawPacked();
    } else {
      d_.q = DrawStrides(QExtents(d_));
      d_.k = DrawKvStrides(KExtents(d_));
      d_.v = DrawKvStrides(VExtents(d_));
    }
    const int64_t rows = d_.batch * d_.q_heads * d_.q_len;
    if (d_.lse) p_.lse_.resize(static_cast<size_t>(rows));
    if (random_.Chance(0.5)) d_.lse_strides = {.batch = d_.q_len * d_.q_heads, .head = 1, .row = d_.q_heads};
    p_.out_.resize(static_cast<size_t>(OutExtents(d_).Elements(d_.out) * ElementBytes(d_.out_dtype.value_or(d_.dtype))));
    p_.ClearOutputs();
  }

  // One (batch, len, q heads | k heads | v heads) tensor, as a fused projection writes it. The lengths become equal.
  void DrawPacked() {
    d_.kv_len = d_.q_len;
    for (int64_t& length : p_.kv_lens_) length = std::min(length, d_.kv_len);
    const int64_t row = d_.q_heads * d_.qk_dim + d_.kv_heads * (d_.qk_dim + d_.v_dim);
    p_.packed_ = true;
    p_.k_begin_ = d_.q_heads * d_.qk_dim;
    p_.v_begin_ = p_.k_begin_ + d_.kv_heads * d_.qk_dim;
    d_.q = d_.k = {.batch = d_.q_len * row, .head = d_.qk_dim, .row = row, .element = 1};
    d_.v = {.batch = d_.q_len * row, .head = d_.v_dim, .row = row, .element = 1};
    Set(Feature::kPackedQkv);
  }

  void Fill(std::vector<std::byte>* bytes, const Extents& e, const Strides& s, int64_t begin, double scale) {
    ForEachElement(e, s, [&](int64_t i, int64_t) { Store(bytes, d_.dtype, begin + i, scale * random_.Normal()); });
  }

  void FillInputs() {
    const auto size = [&](int64_t elements) { return static_cast<size_t>(elements * ElementBytes(d_.dtype)); };
    const std::byte nan{0xff};  // all ones is a NaN in every type
    const double sharp = random_.Chance(0.2) ? 4 : 1;
    if (p_.packed_) {
      p_.q_.assign(size(d_.batch * d_.q.batch), nan);
    } else {
      p_.q_.assign(size(QExtents(d_).Elements(d_.q)), nan);
      p_.k_.assign(size(KExtents(d_).Elements(d_.k)), nan);
      p_.v_.assign(size(VExtents(d_).Elements(d_.v)), nan);
    }
    Fill(&p_.q_, QExtents(d_), d_.q, 0, sharp);
    Fill(KBytes(), KExtents(d_), d_.k, p_.k_begin_, 1);
    Fill(VBytes(), VExtents(d_), d_.v, p_.v_begin_, 1);
  }

  std::vector<std::byte>* KBytes() { return p_.packed_ ? &p_.q_ : &p_.k_; }
  std::vector<std::byte>* VBytes() { return p_.packed_ ? &p_.q_ : &p_.v_; }

  void DrawMask() {
    static constexpr DType kTypes[] = {DType::kBool, DType::kF32, DType::kBF16, DType::kF16};
    static constexpr Feature kFlags[] = {Feature::kMaskBool, Feature::kMaskF32, Feature::kMaskBF16, Feature::kMaskF16};
    const size_t kind = static_cast<size_t>(random_.Below(4));
    MaskDesc& m = d_.mask;
    m.dtype = kTypes[kind];
    Set(kFlags[kind]);
    int64_t keys = d_.kv_len;
    if (random_.Chance(0.2)) {
      m.kv_len = keys = random_.Between(0, d_.kv_len);
      Set(Feature::kMaskShort);
    }
    const bool batch = random_.Chance(0.6), head = random_.Chance(0.6), query = random_.Chance(0.8), key = random_.Chance(0.95);
    if (!batch || !head || !query || !key) Set(Feature::kMaskBroadcast);
    const Extents e{batch ? d_.batch : 1, head ? d_.q_heads : 1, query ? d_.q_len : 1, key ? keys : std::min<int64_t>(keys, 1)};
    const Strides s{.batch = e.heads * e.rows * e.dim, .head = e.rows * e.dim, .row = e.dim, .element = 1};
    m.batch = batch ? s.batch : 0;
    m.head = head ? s.head : 0;
    m.query = query ? s.row : 0;
    m.key = key ? 1 : 0;
    p_.mask_.assign(static_cast<size_t>(e.Elements(s) * ElementBytes(*m.dtype)), std::byte{0});
    FillMask(e, s);
    if (key && keys > 0 && random_.Chance(0.4)) PoisonMaskedKeys(e, s, keys);
  }

  // Ordinary rows with holes, rows without any key, rows whose first keys are all excluded.
  void FillMask(const Extents& e, const Strides& s) {
    const DType type = *d_.mask.dtype;
    const double holes = random_.Uniform() * 0.6, no_key = random_.Chance(0.5) ? 0.1 : 0;
    int64_t row = -1, column = 0, first = 0;
    bool closed = false;
    ForEachElement(e, s, [&](int64_t i, int64_t r) {
      if (r != row || column == e.dim) {
        row = r;
        column = 0;
        closed = random_.Chance(no_key);
        first = random_.Chance(0.2) ? random_.Below(e.dim) : 0;
        if (closed) Set(Feature::kMaskedRows);
      }
      const bool attend = !closed && column++ >= first && !random_.Chance(holes);
      if (type == DType::kBool) return Store(&p_.mask_, type, i, attend);
      // The lowest finite number counts as a number. f16's is so near to zero that f32 sums would differ from f64 ones.
      const bool lowest = type != DType::kF16 && random_.Chance(0.01);
      Store(&p_.mask_, type, i, !attend ? -kInfinity : lowest ? -3.3e38 : 2 * random_.Normal());
    });
  }

  // Closes some keys for every row and fills their K and V with what must never be read as a number.
  void PoisonMaskedKeys(const Extents& e, const Strides& s, int64_t keys) {
    if (d_.k.row == 0 || d_.v.row == 0) return;
    for (int64_t j = 0; j < keys; ++j) {
      if (!random_.Chance(0.1)) continue;
      ForEachElement({e.batch, e.heads, e.rows, 1}, s, [&](int64_t i, int64_t) {
        Store(&p_.mask_, *d_.mask.dtype, i + j, *d_.mask.dtype == DType::kBool ? 0 : -kInfinity);
      });
      for (int64_t b = 0; b < d_.batch; ++b) PoisonKey(b, j);
    }
  }

  void PoisonKey(int64_t batch, int64_t key) {
    static constexpr double kPoison[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 1e10};
    Set(Feature::kPoison);
    const double value = kPoison[random_.Below(4)];
    for (int64_t h = 0; h < d_.kv_heads; ++h) {
      const int64_t k = p_.k_begin_ + batch * d_.k.batch + h * d_.k.head + key * d_.k.row;
      const int64_t v = p_.v_begin_ + batch * d_.v.batch + h * d_.v.head + key * d_.v.row;
      for (int64_t c = 0; c < d_.qk_dim; ++c) Store(KBytes(), d_.dtype, k + c * d_.k.element, value);
      for (int64_t c = 0; c < d_.v_dim; ++c) Store(VBytes(), d_.dtype, v + c * d_.v.element, value);
    }
  }

  // Keys beyond kv_lens, unless another batch entry uses the same memory.
  void PoisonUnusedKeys() {
    const bool shared = d_.k.batch == 0 || d_.v.batch == 0 || d_.k.row == 0 || d_.v.row == 0;
    if (p_.kv_lens_.empty() || shared || random_.Chance(0.3)) return;
    for (int64_t b = 0; b < d_.batch; ++b) {
      for (int64_t j = p_.kv_lens_[static_cast<size_t>(b)]; j < d_.kv_len; ++j) PoisonKey(b, j);
    }
  }

  void PoisonQuery() {
    if (d_.batch * d_.q_heads * d_.q_len * d_.qk_dim == 0) return;
    const int64_t i = random_.Below(d_.batch) * d_.q.batch + random_.Below(d_.q_heads) * d_.q.head +
                      random_.Below(d_.q_len) * d_.q.row + random_.Below(d_.qk_dim) * d_.q.element;
    Store(&p_.q_, d_.dtype, i, std::numeric_limits<double>::quiet_NaN());
    Set(Feature::kNanQuery);
  }

  RandomProblem& p_;
  AttentionDesc& d_;
  Random random_;
};

RandomProblem::RandomProblem(uint64_t seed) { ProblemBuilder(this, seed).Build(); }

Operands RandomProblem::operands() {
  Operands o;
  const int64_t bytes = ElementBytes(desc_.dtype);
  o.q = q_.data();
  o.k = packed_ ? q_.data() + k_begin_ * bytes : k_.data();
  o.v = packed_ ? q_.data() + v_begin_ * bytes : v_.data();
  o.out = out_.data();
  if (desc_.mask.dtype) o.mask = mask_.data();
  if (desc_.alibi) o.alibi = alibi_.data();
  if (desc_.sinks) o.sinks = sinks_.data();
  if (desc_.lse) o.lse = lse_.data();
  return o;
}

std::string RandomProblem::Text() const {
  std::string text = fmt::format("batch {} heads {}/{} len {} x {} dims {}/{} offset {} window {},{}:", desc_.batch, desc_.q_heads,
                                 desc_.kv_heads, desc_.q_len, desc_.kv_len, desc_.qk_dim, desc_.v_dim, desc_.offset,
                                 desc_.window_left, desc_.window_right);
  for (size_t i = 0; i < kFeatures; ++i) {
    if (features_[i]) text += fmt::format(" {}", kNames[i]);
  }
  return text;
}

void RandomProblem::ClearOutputs() {
  std::fill(out_.begin(), out_.end(), kGap);
  if (!lse_.empty()) std::memset(lse_.data(), static_cast<int>(kGap), lse_.size() * sizeof(float));  // never on nullptr
}

bool RandomProblem::GapsWritten() const {
  std::vector<bool> element(out_.size(), false);
  const int64_t bytes = ElementBytes(desc_.out_dtype.value_or(desc_.dtype));
  ForEachElement(OutExtents(desc_), desc_.out, [&](int64_t i, int64_t) {
    for (int64_t b = 0; b < bytes; ++b) element[static_cast<size_t>(i * bytes + b)] = true;
  });
  for (size_t i = 0; i < out_.size(); ++i) {
    if (!element[i] && out_[i] != kGap) return true;
  }
  return false;
}

}  // namespace attenio::cli
