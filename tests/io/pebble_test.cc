#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <vector>

#include "attenio/io.h"

namespace attenio {
namespace {

// The red-blue pebble game of attention on a tiny graph, searched exhaustively: the least loads + stores of any schedule that
// computes each score once and keeps it in fast memory until it is consumed. Words: q[i][c], k[j][c], v[j][c] (inputs),
// s[i][j] (summed over c in any order, consumed by o[i][c] in any order), o[i][c] (may go out and come back). Row statistics
// take no space, which only helps the player.
class Pebbles {
 public:
  Pebbles(int n, int m, int d, int words) : n_(n), m_(m), d_(d), words_(words) {}

  // -1: impossible with so few words.
  int Minimum() {
    std::deque<std::pair<uint64_t, int>> queue{{0, 0}};
    seen_[0] = 0;
    while (!queue.empty()) {
      const auto [state, cost] = queue.front();
      queue.pop_front();
      if (cost > seen_[state]) continue;
      if (Done(state)) return cost;
      next_.clear();
      Moves(state);
      for (const auto& [to, price] : next_) {
        const auto it = seen_.find(to);
        if (it != seen_.end() && it->second <= cost + price) continue;
        seen_[to] = cost + price;
        if (price == 0) {
          queue.push_front({to, cost});
        } else {
          queue.push_back({to, cost + price});
        }
      }
    }
    return -1;
  }

 private:
  // Bits: inputs in fast memory (1 each), o (2 each: 0 not begun, 1 fast, 2 slow), s (d bits summed, d bits consumed).
  int Input(int which, int index, int c) const {
    return (which == 0 ? index : which == 1 ? n_ + index : n_ + m_ + index) * d_ + c;
  }
  int Out(int i, int c) const { return (n_ + 2 * m_) * d_ + 2 * (i * d_ + c); }
  int Score(int i, int j) const { return (n_ + 2 * m_) * d_ + 2 * n_ * d_ + 2 * d_ * (i * m_ + j); }

  int Get(uint64_t s, int at, int bits) const { return static_cast<int>(s >> at & ((uint64_t{1} << bits) - 1)); }
  uint64_t Set(uint64_t s, int at, int bits, int value) const {
    const uint64_t mask = ((uint64_t{1} << bits) - 1) << at;
    return (s & ~mask) | static_cast<uint64_t>(value) << at;
  }
  int Full() const { return (1 << d_) - 1; }

  int Used(uint64_t s) const {
    int used = 0;
    for (int b = 0; b < (n_ + 2 * m_) * d_; ++b) used += Get(s, b, 1);
    for (int i = 0; i < n_; ++i) {
      for (int c = 0; c < d_; ++c) used += Get(s, Out(i, c), 2) == 1;
      for (int j = 0; j < m_; ++j) used += Get(s, Score(i, j), d_) != 0 && Get(s, Score(i, j) + d_, d_) != Full();
    }
    return used;
  }

  bool Done(uint64_t s) const {
    for (int i = 0; i < n_; ++i) {
      for (int c = 0; c < d_; ++c) {
        if (Get(s, Out(i, c), 2) != 2) return false;
      }
      for (int j = 0; j < m_; ++j) {
        if (Get(s, Score(i, j) + d_, d_) != Full()) return false;
      }
    }
    return true;
  }

  void Moves(uint64_t s) {
    const bool room = Used(s) < words_;
    for (int b = 0; b < (n_ + 2 * m_) * d_; ++b) {
      if (Get(s, b, 1)) {
        next_.push_back({Set(s, b, 1, 0), 0});
      } else if (room) {
        next_.push_back({Set(s, b, 1, 1), 1});
      }
    }
    for (int i = 0; i < n_; ++i) {
      for (int c = 0; c < d_; ++c) {
        const int o = Get(s, Out(i, c), 2);
        if (o == 1) next_.push_back({Set(s, Out(i, c), 2, 2), 1});
        if (o == 2 && room) next_.push_back({Set(s, Out(i, c), 2, 1), 1});
      }
      for (int j = 0; j < m_; ++j) ScoreMoves(s, i, j, room);
    }
  }

  void ScoreMoves(uint64_t s, int i, int j, bool room) {
    const int at = Score(i, j), summed = Get(s, at, d_), consumed = Get(s, at + d_, d_);
    for (int c = 0; c < d_; ++c) {
      const bool inputs = Get(s, Input(0, i, c), 1) && Get(s, Input(1, j, c), 1);
      if (!(summed >> c & 1) && inputs && (summed != 0 || room)) next_.push_back({Set(s, at, d_, summed | 1 << c), 0});
      if (summed != Full() || (consumed >> c & 1) || !Get(s, Input(2, j, c), 1)) continue;
      const int o = Get(s, Out(i, c), 2);
      if (o == 2 || (o == 0 && !room)) continue;
      next_.push_back({Set(Set(s, at + d_, d_, consumed | 1 << c), Out(i, c), 2, 1), 0});
    }
  }

  int n_, m_, d_, words_;
  std::unordered_map<uint64_t, int> seen_;
  std::vector<std::pair<uint64_t, int>> next_;
};

// What the closed forms promise for `words` when statistics take no space and columns pass one by one.
double BestClosedForm(const Shape& s, int words) {
  double best = 1e300;
  const auto n = s.q_len, m = s.kv_len, d = s.qk_dim;
  for (int64_t rows = 1; rows <= n; ++rows) {
    for (int64_t keys = 1; keys <= m; ++keys) {
      Schedule schedule;
      schedule.levels = {{"pad", Dataflow::kQueryResident, rows, keys}};
      if (rows * (2 * d + 1) + 1 <= words) best = std::min(best, Predict(schedule, s, 0, RowStats::kDropped).total());
      schedule.levels[0].dataflow = Dataflow::kScoreResident;
      if (rows * keys + std::min(rows, keys) + 1 <= words && rows * keys + 2 <= words) {
        best = std::min(best, Predict(schedule, s, 0, RowStats::kDropped).total());
      }
    }
  }
  return best;
}

TEST(PebbleGame, LiesBetweenBoundAndSchedule) {
  struct Case {
    int n, m, d, most_words;
  };
  for (const Case& c : {Case{2, 2, 1, 8}, {2, 3, 1, 6}, {3, 2, 1, 6}, {2, 2, 2, 5}}) {
    Shape s;
    s.q_len = c.n;
    s.kv_len = c.m;
    s.qk_dim = s.v_dim = c.d;
    int before = 1 << 20;
    for (int words = 3; words <= c.most_words; ++words) {
      const int exact = Pebbles(c.n, c.m, c.d, words).Minimum();
      const double bound = LowerBound(s, words, BoundKind::kScoreOnce), schedule = BestClosedForm(s, words);
      SCOPED_TRACE(testing::Message() << c.n << "x" << c.m << " d " << c.d << " words " << words << ": bound " << bound
                                      << " exact " << exact << " schedule " << schedule);
      ASSERT_GT(exact, 0);
      EXPECT_LE(bound, exact);
      EXPECT_LE(exact, schedule);
      EXPECT_LE(exact, before);  // more memory never hurts
      before = exact;
      std::printf("pebbles %dx%d d=%d words=%d: bound %.0f exact %d schedule %.0f\n", c.n, c.m, c.d, words, bound,
                  exact, schedule);
    }
  }
  EXPECT_EQ(Pebbles(2, 2, 1, 2).Minimum(), -1);  // a product needs three words
}

}  // namespace
}  // namespace attenio
