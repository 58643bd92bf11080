// The sequence of a polynomial schedule, and its visitors that count words and cache lines.
#include <algorithm>
#include <utility>

#include "attenio/io_poly.h"
#include "base/math.h"
#include "io/cache.h"

namespace attenio {
namespace {

Range BlockAt(int64_t index, int64_t size, int64_t end) { return {index * size, std::min((index + 1) * size, end)}; }

// Multisets of `degree` blocks out of `blocks`, in lexicographic order; tile t is the t-th.
std::vector<int64_t> Multiset(int64_t blocks, int degree, int64_t tile) {
  std::vector<int64_t> set(static_cast<size_t>(degree), 0);
  for (; tile > 0; --tile) {
    int i = degree - 1;
    while (i > 0 && set[i] == blocks - 1) --i;
    std::fill(set.begin() + i, set.end(), set[i] + 1);
  }
  return set;
}

int64_t FeatureBlocks(const PolySchedule& p, const Shape& s) {
  switch (p.regime) {
    case PolyRegime::kBlocks:
      return CeilDiv(FeatureCount(s.qk_dim, p.degree), p.features);
    case PolyRegime::kTensor:
      return FeatureCount(CeilDiv(s.qk_dim, p.coordinates) - 1, p.degree);
    default:
      return 1;
  }
}

// What SimulateScratchpad knows: which part of Z is resident, and which columns of O slow memory holds.
class Scratchpad {
 public:
  Scratchpad(const PolySchedule& p, const Shape& s) : p_(p), s_(s), written_(static_cast<size_t>(s.v_dim + 1), false) {}

  void Visit(const Step& step) {
    int64_t coordinates = s_.qk_dim;
    if (p_.regime == PolyRegime::kTensor) {
      if (step.op == Op::kState) tile_ = TensorTile(p_, s_, step.features.begin);
      coordinates = 0;
      for (const Range& r : tile_) coordinates += r.size();
    }
    const bool has_sum = step.dims.end == s_.v_dim + 1;
    const double values = static_cast<double>(step.dims.size() - (has_sum ? 1 : 0));
    if (step.op == Op::kState) {
      traffic_.k += static_cast<double>(step.keys.size() * coordinates);
      traffic_.v += static_cast<double>(step.keys.size()) * values;
      resident_ = {step.features, step.dims};
      return;
    }
    if (!(resident_.first == step.features) || !(resident_.second == step.dims)) misses_ = true;  // Z is not what was built
    const double rows = static_cast<double>(step.queries.size());
    traffic_.q += rows * static_cast<double>(coordinates);
    const bool accumulates = p_.regime == PolyRegime::kBlocks || p_.regime == PolyRegime::kTensor;
    for (int64_t c = step.dims.begin; c < step.dims.end; ++c) {
      double& word = c == s_.v_dim ? traffic_.stats : traffic_.out;
      if (c == s_.v_dim && !accumulates) continue;
      word += rows * (accumulates && written_[static_cast<size_t>(c)] ? 2 : 1);
      written_[static_cast<size_t>(c)] = true;
    }
    // B2: the first block computes the denominators and stores them for the others.
    if (p_.regime == PolyRegime::kColumns && step.dims.size() < s_.v_dim + 1) traffic_.stats += rows;
  }

  const Traffic& traffic() const { return traffic_; }
  bool misses() const { return misses_; }

 private:
  const PolySchedule& p_;
  const Shape& s_;
  Traffic traffic_;
  std::vector<bool> written_;
  std::vector<Range> tile_;
  std::pair<Range, Range> resident_;
  bool misses_ = false;
};

}  // namespace

std::vector<Range> TensorTile(const PolySchedule& p, const Shape& s, int64_t tile) {
  std::vector<Range> ranges;
  const std::vector<int64_t> blocks = Multiset(CeilDiv(s.qk_dim, p.coordinates), p.degree, tile);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i == 0 || blocks[i] != blocks[i - 1]) ranges.push_back(BlockAt(blocks[i], p.coordinates, s.qk_dim));
  }
  return ranges;
}

void ForEachStep(const PolySchedule& p, const Shape& s, StepVisitor visit) {
  const int64_t r = FeatureCount(s.qk_dim, p.degree), columns = s.v_dim + 1;
  const int64_t feature_blocks = FeatureBlocks(p, s);
  const int64_t width = p.regime == PolyRegime::kResident ? columns : p.columns;
  const Range keys{0, s.kv_len}, rows{0, s.rows()};
  for (int64_t f = 0; f < feature_blocks; ++f) {
    Range features{0, r};
    if (p.regime == PolyRegime::kBlocks) features = BlockAt(f, p.features, r);
    if (p.regime == PolyRegime::kTensor) features = {f, f + 1};
    for (int64_t c = 0; c * width < columns; ++c) {
      Step step;
      step.keys = keys;
      step.queries = rows;
      step.features = features;
      step.dims = BlockAt(c, width, columns);
      step.first = f == 0;
      step.last = f + 1 == feature_blocks;
      const bool end = step.last && step.dims.end == columns;
      step.op = Op::kState;
      step.next_keys = keys;
      step.next_queries = rows;
      visit(step);
      step.op = Op::kApply;
      if (end) step.next_keys = step.next_queries = {};
      visit(step);
    }
  }
}

Result<Traffic> SimulateScratchpad(const PolySchedule& p, const Shape& s, double words) {
  if (PolyCapacity(p, s) > words) {
    return Status::Error(Code::kInvalidArgument, "simulate: %s needs %.0f words, there are %.0f", p.ToString().c_str(),
                         PolyCapacity(p, s), words);
  }
  Scratchpad scratchpad(p, s);
  ForEachStep(p, s, [&](const Step& step) { scratchpad.Visit(step); });
  if (scratchpad.misses()) return Status::Error(Code::kInvalidArgument, "simulate: %s applies a state it has not built", p.ToString().c_str());
  return scratchpad.traffic();
}

Result<std::vector<LineTraffic>> SimulateCaches(const PolySchedule& p, const Shape& s, const Machine& machine, const PolyCacheOptions& o) {
  io::CacheStack stack(machine);
  if (stack.empty()) return Status::Error(Code::kInvalidArgument, "simulate: machine \"%.60s\" has no cache with ways", machine.name.c_str());
  if (p.regime != PolyRegime::kResident) return Status::Error(Code::kInvalidArgument, "simulate: the loops on the CPU are those of R, not %s", Name(p.regime));
  const int64_t r = FeatureCount(s.qk_dim, p.degree), e = s.element_bytes, row = s.v_dim * 4;
  const int64_t q = stack.Allocate(s.rows() * s.qk_dim * e, Operand::kQ), k = stack.Allocate(s.kv_len * s.qk_dim * e, Operand::kK);
  const int64_t v = stack.Allocate(s.kv_len * s.v_dim * e, Operand::kV), out = stack.Allocate(s.rows() * s.v_dim * e, Operand::kOut);
  const int64_t widest = std::max(o.key_panel, o.query_panel);
  const int64_t state = stack.Allocate(r * (row + 4), Operand::kStats);
  const int64_t x = stack.Allocate(widest * s.qk_dim * 4, Operand::kScores), values = stack.Allocate(widest * row, Operand::kScores);
  const int64_t panel = stack.Allocate(widest * o.block * 4, Operand::kScores);
  ForEachStep(p, s, [&](const Step& step) {
    const bool keys = step.op == Op::kState;
    const Range rows = keys ? step.keys : step.queries;
    const int64_t height = keys ? o.key_panel : o.query_panel;
    for (int64_t first = rows.begin; first < rows.end; first += height) {
      const int64_t count = std::min(height, rows.end - first);
      stack.Touch((keys ? k : q) + first * s.qk_dim * e, count * s.qk_dim * e, false);
      stack.Touch(x, height * s.qk_dim * 4, true);
      if (keys) stack.Touch(v + first * s.v_dim * e, count * s.v_dim * e, false);
      stack.Touch(values, height * row, true);
      for (int64_t f = 0; f < r; f += o.block) {
        const int64_t features = std::min(o.block, r - f);
        stack.Touch(x, height * s.qk_dim * 4, false);
        stack.Touch(panel, features * height * 4, true);
        stack.Touch(state + f * row, features * row, keys);
        stack.Touch(state + r * row + f * 4, features * 4, keys);
        stack.Touch(panel, features * height * 4, false);
        stack.Touch(values, height * row, !keys);
      }
      if (!keys) stack.Touch(out + first * s.v_dim * e, count * s.v_dim * e, true);
    }
  });
  return stack.traffic();
}

}  // namespace attenio
