// Resources and events: a visitor of ForEachStep that keeps three resources (memory channels, PE array, EXP unit) busy.
#ifndef ATTENIO_SRC_HW_TIMELINE_H_
#define ATTENIO_SRC_HW_TIMELINE_H_

#include <algorithm>
#include <vector>

#include "hw/tiles.h"

namespace attenio::hw {

// Cycles of every part of a step of `rows` x `keys`. Pure.
class Costs {
 public:
  explicit Costs(const Run& run) : run_(&run) {}

  // `pairs` (row, key) pairs, one MAC or several for each: `depth` steps a wave, fewer where several MACs share a pair.
  int64_t Matmul(int64_t pairs, int64_t depth) const;
  int64_t QK(int64_t rows, int64_t keys) const;
  int64_t PV(int64_t rows, int64_t keys) const;
  // What the softmax adds between the two products, and what of it hides behind them (pipelined only).
  int64_t Softmax(int64_t rows, int64_t keys) const;
  int64_t SoftmaxHidden(int64_t rows, int64_t keys) const;
  // O / l of the rows.
  int64_t Finish(int64_t rows) const;
  // FuseMax, tiles of the array: both products and the exponential on the 2-D array; corrections of l and O on the 1-D.
  int64_t Fused2D(int64_t rows, int64_t keys) const;
  int64_t Fused1D(int64_t rows, int64_t keys) const;
  int64_t Finish1D(int64_t rows) const;
  double Exponentials(int64_t rows, int64_t keys) const;
  // Channels busy with `words`.
  int64_t Transfer(int64_t words) const;

 private:
  const Run* run_;
};

// Everything that is added up.
struct Counters {
  int64_t pe_busy = 0, exp_busy = 0, memory_busy = 0, stall = 0;
  int64_t q = 0, k = 0, v = 0, out = 0, scores = 0;  // words
  double exponentials = 0;

  // this += other * times, and this - other.
  void Add(const Counters& other, int64_t times);
  Counters Minus(const Counters& other) const;
};

// Cycles from which on a resource is free or a datum is there.
struct Clock {
  int64_t pe = 0, exp = 0, memory = 0;
  int64_t q_ready = 0, k_ready = 0;  // of the next step
  int64_t o_free = 0;                // O of the previous tile is written
  int64_t serial = 0;                // what the next phase waits for when phases do not overlap
  int64_t exp_begin = 0;             // decoupled: of the latest softmax
  int64_t pv_from = 0;               // decoupled: the waiting PV has its probabilities and V

  int64_t end() const { return std::max({pe, exp, memory}); }
};

// Executes Steps. A copy continues on its own; `run` must outlive it.
class Timeline {
 public:
  // With `record`, events that touch `window` are appended to it.
  explicit Timeline(const Run& run, std::vector<Event>* record = nullptr, Range window = {});

  // Steps in the order of ForEachStep over a shape with kv_len keys; each is executed when the one after it is known, be it
  // of the next tile or head.
  void Push(Step step, int64_t kv_len);
  // Executes the last step.
  void Flush();

  // Folding. The clocks follow a (max, +) recurrence: once a step (or a head) leaves every clock where it was relative to
  // the array's, the same step again does the same again. `times` more steps are added at the first such step among those
  // that follow; left_to_skip() tells whether there was one.
  void SkipAhead(int64_t times) { skip_ = times; }
  int64_t left_to_skip() const { return skip_; }

  struct Mark {
    Clock clock;
    Counters counters;
    int64_t memory_waits = 0;
    bool q_loaded = false, k_loaded = false;
  };
  Mark Here() const { return {clock_, counters_, memory_waits_, q_loaded_, k_loaded_}; }
  // Whether what follows takes the same time from here as from `mark`.
  bool SameAs(const Mark& mark) const;
  // What happened since `mark`, `times` more. Needs SameAs(mark).
  void Repeat(const Mark& mark, int64_t times);

  int64_t cycles() const { return clock_.end(); }
  const Counters& counters() const { return counters_; }
  int64_t steps() const { return steps_; }

 private:
  void Execute(const Step& step, const Step* next);
  void Fused(const Step& step, const Step* next);
  void ArrayTile(const Step& step);
  void Scores(const Step& step);
  void Softmax(const Step& step);
  void Values(const Step& step);
  void IssueWaitingPV();
  void FinishRows(const Step& step);
  void Fold(const Step& step, const Step* next);

  int64_t Transfer(Work work, const Step& step, int64_t words, int64_t earliest);
  int64_t Occupy(Resource resource, Work work, const Step& step, int64_t start, int64_t cycles);
  // What a phase of FLAT and Standard waits for besides its data; the time it waits for data is a stall.
  int64_t Begin(int64_t ready, int64_t data);

  const Run* run_;
  Costs costs_;
  std::vector<Event>* record_;
  Range window_;
  bool decoupled_;
  Clock clock_;
  Counters counters_;
  Step pending_;
  bool has_pending_ = false;
  bool q_loaded_ = false, k_loaded_ = false;  // ahead of time, for the next step
  Step waiting_;                              // decoupled: a PV that is issued after the next QK
  bool has_waiting_ = false;
  int64_t memory_waits_ = 0;  // decoupled: cycles that some unit waited for memory
  int64_t v_seen_ = 0;        // Standard: keys whose V has been counted
  int64_t steps_ = 0;

  int64_t skip_ = 0;
  bool has_series_ = false;  // the step before this one was like it
  int64_t series_rows_ = 0, series_keys_ = 0;
  Mark series_mark_;
};

}  // namespace attenio::hw

#endif  // ATTENIO_SRC_HW_TIMELINE_H_
