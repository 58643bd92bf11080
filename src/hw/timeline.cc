#include "hw/timeline.h"

#include <algorithm>

#include "base/math.h"

namespace attenio {

const char* Name(Resource resource) {
  constexpr const char* kNames[] = {"memory", "pe", "exp"};
  return kNames[static_cast<int>(resource)];
}

const char* Name(Work work) {
  constexpr const char* kNames[] = {"load-q",  "load-k", "load-v",  "load-scores", "store-scores",
                                    "store-o", "qk",     "softmax", "pv",          "finish"};
  return kNames[static_cast<int>(work)];
}

namespace hw {
namespace {

// Clocks that are set by what the array and the channels did.
constexpr int64_t Clock::*kFollowers[] = {&Clock::exp,    &Clock::q_ready,   &Clock::k_ready, &Clock::o_free,
                                          &Clock::serial, &Clock::exp_begin, &Clock::pv_from};

}  // namespace

void Counters::Add(const Counters& other, int64_t times) {
  pe_busy += other.pe_busy * times;
  exp_busy += other.exp_busy * times;
  memory_busy += other.memory_busy * times;
  stall += other.stall * times;
  q += other.q * times;
  k += other.k * times;
  v += other.v * times;
  out += other.out * times;
  scores += other.scores * times;
  exponentials += other.exponentials * static_cast<double>(times);
}

Counters Counters::Minus(const Counters& other) const {
  Counters difference = *this;
  difference.Add(other, -1);
  return difference;
}

Timeline::Timeline(const Run& run, std::vector<Event>* record, Range window)
    : run_(&run),
      costs_(run),
      record_(record),
      window_(window),
      decoupled_(run.dataflow == HwDataflow::kFusemax ||
                 (run.hw.decoupled && run.tile().dataflow != Dataflow::kQueryResident)) {}

void Timeline::Push(Step step, int64_t kv_len) {
  if (step.edge && run_->tile().dataflow != Dataflow::kRowBuffered) {  // of a block that the mask cuts, all is computed
    const int64_t size = run_->tile().keys;
    step.keys = {RoundDown(step.keys.begin, size), std::min(RoundUp(step.keys.end, size), kv_len)};
  }
  if (has_pending_) Execute(pending_, &step);
  pending_ = step;
  has_pending_ = true;
}

void Timeline::Flush() {
  if (has_pending_) Execute(pending_, nullptr);
  has_pending_ = false;
  IssueWaitingPV();
  if (decoupled_) {  // no unit waits while its queue is full: what counts is by how much memory outlasts the arrays
    counters_.stall = std::max<int64_t>(0, clock_.end() - std::max(counters_.pe_busy, counters_.exp_busy));
    counters_.stall = std::min(counters_.stall, counters_.memory_busy);
  } else {
    counters_.stall += clock_.end() - std::max(clock_.pe, clock_.exp);  // only the last store is left
  }
}

void Timeline::Execute(const Step& step, const Step* next) {
  ++steps_;
  switch (step.op) {
    case Op::kQK:
      return Scores(step);
    case Op::kSoftmax:
      return Softmax(step);
    case Op::kPV:
      return Values(step);
    default:
      break;
  }
  if (run_->dataflow == HwDataflow::kFusemax) {
    ArrayTile(step);
  } else {
    Fused(step, next);
  }
  if (skip_ > 0) Fold(step, next);
}

bool Timeline::SameAs(const Mark& mark) const {
  if (q_loaded_ != mark.q_loaded || k_loaded_ != mark.k_loaded) return false;
  // A clock behind the array's is as good as level with it: nothing starts before the array is free.
  for (const auto field : kFollowers) {
    if (std::max<int64_t>(0, clock_.*field - clock_.pe) != std::max<int64_t>(0, mark.clock.*field - mark.clock.pe))
      return false;
  }
  const int64_t lead = clock_.pe - clock_.memory, lead_then = mark.clock.pe - mark.clock.memory;
  if (lead == lead_then) return true;
  if (!decoupled_) return lead >= 0 && lead_then >= 0;
  // Decoupled transfers do not wait for the array: how far they run ahead matters, unless nothing waited for them and they
  // only get further ahead.
  return lead > lead_then && memory_waits_ == mark.memory_waits;
}

void Timeline::Repeat(const Mark& mark, int64_t times) {
  const int64_t period = clock_.pe - mark.clock.pe;
  clock_.memory += (decoupled_ ? clock_.memory - mark.clock.memory : period) * times;
  clock_.pe += period * times;
  for (const auto field : kFollowers) clock_.*field += period * times;
  counters_.Add(counters_.Minus(mark.counters), times);
  memory_waits_ += (memory_waits_ - mark.memory_waits) * times;
}

void Timeline::Fold(const Step& step, const Step* next) {
  const int64_t rows = step.queries.size(), keys = step.keys.size();
  const bool inside =
      !step.first && !step.last && next != nullptr && next->keys.size() == keys && next->queries.size() == rows;
  const bool series = inside && has_series_ && series_rows_ == rows && series_keys_ == keys;
  if (series && SameAs(series_mark_)) {
    Repeat(series_mark_, skip_);
    skip_ = 0;
  }
  has_series_ = inside;
  series_rows_ = rows;
  series_keys_ = keys;
  series_mark_ = Here();
}

int64_t Timeline::Occupy(Resource resource, Work work, const Step& step, int64_t start, int64_t cycles) {
  const int64_t end = start + cycles;
  const bool memory = resource == Resource::kMemory, pe = resource == Resource::kPe;
  (memory ? clock_.memory : pe ? clock_.pe : clock_.exp) = end;
  (memory ? counters_.memory_busy : pe ? counters_.pe_busy : counters_.exp_busy) += cycles;
  if (record_ != nullptr && start < window_.end && end > window_.begin) {
    record_->push_back({resource, work, step.queries, step.keys, start, end});
  }
  return end;
}

// In the order of issue; returns when the data is there.
int64_t Timeline::Transfer(Work work, const Step& step, int64_t words, int64_t earliest) {
  switch (work) {
    case Work::kLoadQ:
      counters_.q += words;
      break;
    case Work::kLoadK:
      counters_.k += words;
      break;
    case Work::kLoadV:
      counters_.v += words;
      break;
    case Work::kStoreO:
      counters_.out += words;
      break;
    default:
      counters_.scores += words;
      break;
  }
  // Decoupled: requests are queued far ahead, a transfer waits for the channels only.
  const int64_t start = decoupled_ ? clock_.memory : std::max(clock_.memory, earliest);
  return Occupy(Resource::kMemory, work, step, start, costs_.Transfer(words)) + run_->hw.memory_latency_cycles;
}

// One block of keys against a tile of queries: Q K_j, softmax, P_j V_j, one after the other on array and EXP unit; loads
// beside them as far as the overlap switches say.
void Timeline::Fused(const Step& step, const Step* next) {
  const int64_t rows = step.queries.size(), keys = step.keys.size();
  const int64_t dk = run_->shape.qk_dim;
  const HwOverlap& overlap = run_->overlap;
  if (step.first && !q_loaded_) clock_.q_ready = Transfer(Work::kLoadQ, step, rows * dk, clock_.serial);
  if (!k_loaded_) clock_.k_ready = Transfer(Work::kLoadK, step, keys * dk, clock_.serial);
  q_loaded_ = k_loaded_ = false;

  const int64_t qk_begin = std::max({clock_.pe, clock_.q_ready, clock_.k_ready});
  counters_.stall += qk_begin - clock_.pe;
  const int64_t qk_end = Occupy(Resource::kPe, Work::kQK, step, qk_begin, costs_.QK(rows, keys));
  const int64_t hidden = std::min(costs_.SoftmaxHidden(rows, keys), qk_end - qk_begin);
  const int64_t softmax_end =
      Occupy(Resource::kExp, Work::kSoftmax, step, std::max(clock_.exp, qk_end - hidden), costs_.Softmax(rows, keys));
  counters_.exponentials += costs_.Exponentials(rows, keys);

  const int64_t v_ready =
      Transfer(Work::kLoadV, step, keys * run_->shape.v_dim, overlap.intra_inner ? qk_begin : softmax_end);
  const bool early_tile = overlap.inter_outer && step.last && next != nullptr;
  if (early_tile) {  // Q K_j was the last use of this Q
    clock_.q_ready = Transfer(Work::kLoadQ, *next, next->queries.size() * dk, qk_end);
    q_loaded_ = true;
  }

  const int64_t pv_from = std::max(clock_.pe, softmax_end);
  const int64_t pv_begin = std::max({pv_from, v_ready, step.first ? clock_.o_free : 0});
  counters_.stall += pv_begin - pv_from;
  clock_.serial = Occupy(Resource::kPe, Work::kPV, step, pv_begin, costs_.PV(rows, keys));
  // Across tiles the next K comes early only if the next Q does.
  if (overlap.inter_inner && next != nullptr && (!step.last || early_tile)) {
    clock_.k_ready = Transfer(Work::kLoadK, *next, next->keys.size() * dk, pv_begin);
    k_loaded_ = true;
  }
  if (step.last) FinishRows(step);
}

void Timeline::FinishRows(const Step& step) {
  const int64_t rows = step.queries.size();
  const int64_t finished = run_->dataflow == HwDataflow::kFusemax
                               ? Occupy(Resource::kExp, Work::kFinish, step, clock_.exp, costs_.Finish1D(rows))
                               : Occupy(Resource::kPe, Work::kFinish, step, clock_.pe, costs_.Finish(rows));
  clock_.o_free = Transfer(Work::kStoreO, step, rows * run_->shape.v_dim, finished);
  clock_.serial = run_->overlap.inter_outer ? finished : clock_.o_free;
}

// FuseMax: the 2-D array works on one block while the 1-D array corrects the rows for the block before it.
void Timeline::ArrayTile(const Step& step) {
  const int64_t rows = step.queries.size(), keys = step.keys.size();
  if (step.first) clock_.q_ready = Transfer(Work::kLoadQ, step, rows * run_->shape.qk_dim, 0);
  const int64_t k_ready = Transfer(Work::kLoadK, step, keys * run_->shape.qk_dim, 0);
  const int64_t v_ready = Transfer(Work::kLoadV, step, keys * run_->shape.v_dim, 0);
  const int64_t ready = std::max(clock_.pe, clock_.exp_begin);  // one block between the arrays
  const int64_t begin = std::max({ready, clock_.q_ready, k_ready, v_ready});
  memory_waits_ += begin - ready;
  const int64_t end = Occupy(Resource::kPe, Work::kQK, step, begin, costs_.Fused2D(rows, keys));
  clock_.exp_begin = std::max(clock_.exp, end);
  Occupy(Resource::kExp, Work::kSoftmax, step, clock_.exp_begin, costs_.Fused1D(rows, keys));
  counters_.exponentials += costs_.Exponentials(rows, keys);
  if (step.last) FinishRows(step);
}

int64_t Timeline::Begin(int64_t ready, int64_t data) {
  // In order, array and EXP unit are idle whenever a phase waits.
  if (!decoupled_) ready = std::max(clock_.pe, clock_.exp);
  const int64_t begin = std::max(ready, decoupled_ ? data : std::max(data, clock_.serial));
  (decoupled_ ? memory_waits_ : counters_.stall) += begin - ready;
  return begin;
}

// FLAT and Standard, first product of a block.
void Timeline::Scores(const Step& step) {
  const int64_t rows = step.queries.size(), keys = step.keys.size(), dk = run_->shape.qk_dim;
  const bool unfused = run_->tile().dataflow == Dataflow::kUnfused;
  // A tile of scores fills the cache of Standard: slices of both operands stream past it.
  if (unfused || step.first) clock_.q_ready = Transfer(Work::kLoadQ, step, rows * dk, clock_.serial);
  const int64_t k_ready = Transfer(Work::kLoadK, step, keys * dk, clock_.serial);
  const int64_t begin = Begin(std::max(clock_.pe, clock_.exp_begin), std::max(clock_.q_ready, k_ready));
  clock_.serial = Occupy(Resource::kPe, Work::kQK, step, begin, costs_.QK(rows, keys));
  if (unfused || run_->spills) {
    const int64_t stored = Transfer(Work::kStoreScores, step, rows * keys, clock_.serial);
    if (!decoupled_) clock_.serial = stored;
  }
  IssueWaitingPV();
  v_seen_ = 0;
}

void Timeline::Softmax(const Step& step) {
  const int64_t rows = step.queries.size(), keys = step.keys.size();
  const bool through_memory = run_->tile().dataflow == Dataflow::kUnfused || run_->spills;
  const int64_t loaded = through_memory ? Transfer(Work::kLoadScores, step, rows * keys, clock_.serial) : 0;
  clock_.exp_begin = Begin(std::max(clock_.exp, clock_.serial), loaded);
  clock_.serial = Occupy(Resource::kExp, Work::kSoftmax, step, clock_.exp_begin, costs_.Softmax(rows, keys));
  counters_.exponentials += costs_.Exponentials(rows, keys);
  if (through_memory) {
    const int64_t stored = Transfer(Work::kStoreScores, step, rows * keys, clock_.serial);
    if (!decoupled_) clock_.serial = stored;
  }
}

void Timeline::Values(const Step& step) {
  const Range keys = step.keys;
  const int64_t rows = step.queries.size();
  const bool unfused = run_->tile().dataflow == Dataflow::kUnfused;
  int64_t data = 0;
  if (unfused || run_->spills) data = Transfer(Work::kLoadScores, step, rows * keys.size(), clock_.serial);
  // Standard: V is counted once a head, as the paper counts it (2 N d for V and O together).
  const int64_t fresh = keys.end - (unfused ? std::max(v_seen_, keys.begin) : keys.begin);
  if (fresh > 0) {
    data = std::max(data, Transfer(Work::kLoadV, step, fresh * run_->shape.v_dim, clock_.serial));
    v_seen_ = keys.end;
  }
  if (decoupled_) {
    IssueWaitingPV();
    clock_.pv_from = std::max(data, clock_.exp);
    memory_waits_ += clock_.pv_from - clock_.exp;
    waiting_ = step;
    has_waiting_ = true;
    return;
  }
  clock_.serial = Occupy(Resource::kPe, Work::kPV, step, Begin(0, data), costs_.PV(rows, keys.size()));
  if (step.last) FinishRows(step);
}

void Timeline::IssueWaitingPV() {
  if (!has_waiting_) return;
  has_waiting_ = false;
  const int64_t cycles = costs_.PV(waiting_.queries.size(), waiting_.keys.size());
  Occupy(Resource::kPe, Work::kPV, waiting_, std::max(clock_.pe, clock_.pv_from), cycles);
  if (waiting_.last) FinishRows(waiting_);
}

}  // namespace hw
}  // namespace attenio
