// Random shapes and schedules for the tests of io; a failing case prints its seed, which replays it.
#ifndef ATTENIO_TESTS_IO_RANDOM_IO_H_
#define ATTENIO_TESTS_IO_RANDOM_IO_H_

#include <algorithm>
#include <random>
#include <string>

#include "attenio/io.h"

namespace attenio {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t Int(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(engine_); }
  bool Flip() { return Int(0, 1) == 1; }
  // From 1 to 2^bits, all orders of magnitude alike.
  int64_t Scale(int bits) { return std::max<int64_t>(1, (int64_t{1} << Int(0, bits)) - Int(0, 3)); }

 private:
  std::mt19937_64 engine_;
};

inline Shape RandomShape(Random* r, int64_t max_len) {
  Shape s;
  s.kv_heads = 1;
  s.q_heads = r->Int(1, 3);
  s.q_len = r->Int(1, max_len);
  s.kv_len = r->Int(1, max_len);
  s.qk_dim = r->Int(1, 5);
  s.v_dim = r->Int(1, 5);
  s.offset = r->Flip() ? 0 : r->Int(-max_len, max_len);
  if (r->Flip()) s.right = r->Int(0, 3) == 0 ? r->Int(0, max_len) : 0;
  if (r->Int(0, 3) == 0) s.left = r->Int(0, max_len);
  return s;
}

// A problem as a hostile caller writes it: every number anywhere up to the largest that is allowed.
struct HostileProblem {
  Shape shape;
  SolveOptions options;
  Machine machine;

  explicit HostileProblem(Random* r) {
    shape.kv_heads = r->Scale(40);
    shape.q_heads = shape.kv_heads * std::min(r->Scale(40), (int64_t{1} << 40) / shape.kv_heads);
    shape.q_len = std::min(r->Scale(40), (int64_t{1} << 62) / std::max<int64_t>(1, shape.group()));
    shape.kv_len = r->Scale(40);
    shape.qk_dim = r->Scale(r->Flip() ? 40 : 9);
    shape.v_dim = r->Scale(r->Flip() ? 40 : 9);
    shape.offset = r->Flip() ? 0 : r->Scale(60) * (r->Flip() ? 1 : -1);
    if (r->Flip()) shape.right = r->Flip() ? 0 : r->Scale(60);
    if (r->Flip()) shape.left = r->Scale(60);
    options.threads = r->Scale(62);
    if (r->Flip()) options.quantum = {r->Scale(20), r->Scale(20), r->Scale(20)};
    options.packed_bytes = r->Int(1, 16);
    for (const char* name : {"reg", "L1", "L2", "LLC"}) {
      MemoryLevel l;
      l.name = name;
      l.bytes = r->Scale(r->Flip() ? 62 : 22);
      l.ways = r->Flip() ? 0 : r->Scale(10);
      l.sharers = r->Scale(r->Flip() ? 1 : 10);
      machine.levels.push_back(l);
    }
  }
};

inline Schedule RandomSchedule(Random* r, int levels, int64_t max_tile) {
  static const char* const names[] = {"L2", "L1", "reg"};
  Schedule s;
  for (int l = 0; l < levels; ++l) {
    s.levels.push_back({names[l], static_cast<Dataflow>(r->Int(0, 4)), r->Int(1, max_tile), r->Int(1, max_tile)});
  }
  if (r->Flip()) s.packing = Packing::kBlock;
  return s;
}

inline bool Allowed(const Shape& s, int64_t row, int64_t key) {
  const int64_t position = row / s.group() + s.offset;
  return (s.right == kUnbounded || key <= position + s.right) && (s.left == kUnbounded || key >= position - s.left);
}

inline std::string Describe(const Shape& s) {
  return "heads " + std::to_string(s.q_heads) + "/" + std::to_string(s.kv_heads) + " n " + std::to_string(s.q_len) +
         " m " + std::to_string(s.kv_len) + " dims " + std::to_string(s.qk_dim) + "/" + std::to_string(s.v_dim) +
         " offset " + std::to_string(s.offset) + " left " + std::to_string(s.left) + " right " +
         std::to_string(s.right);
}

}  // namespace attenio

#endif  // ATTENIO_TESTS_IO_RANDOM_IO_H_
