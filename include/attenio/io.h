// The vocabulary of the I/O analysis, shared by the solver, the executor, the cache simulator and the accelerator model:
// Shape (what is computed), Machine (where), Schedule (in which order), Step (one piece of that order), Traffic (what it moves).
// Everything here is a value; every function is pure and may be called from any thread.
#ifndef ATTENIO_IO_H_
#define ATTENIO_IO_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "attenio/export.h"
#include "attenio/status.h"
#include "attenio/types.h"

namespace attenio {

// ---------------------------------------------------------------- Shape

// A window side without a limit.
inline constexpr int64_t kUnbounded = -1;

// Extents of one attention call. The `group()` query heads of one KV head are rows on the same K and V; row r of a KV head
// is query r / group() of head r % group() of that group. Query i stands at position i + offset and may attend the keys
// from position - left to position + right; causal is right = 0.
struct Shape {
  int64_t batch = 1;
  int64_t q_heads = 1;
  int64_t kv_heads = 1;
  int64_t q_len = 0;
  int64_t kv_len = 0;
  int64_t qk_dim = 0;
  int64_t v_dim = 0;
  int64_t element_bytes = 4;  // of q, k, v as stored
  int64_t offset = 0;
  int64_t left = kUnbounded;
  int64_t right = kUnbounded;

  int64_t group() const { return kv_heads > 0 ? q_heads / kv_heads : 0; }
  int64_t rows() const { return group() * q_len; }  // per KV head
  bool banded() const { return left != kUnbounded || right != kUnbounded; }

  // Keys that at least one / every row of `rows` may attend (an empty range begins and ends at the same key).
  ATTENIO_API Range AnyKeys(Range rows) const;
  ATTENIO_API Range AllKeys(Range rows) const;
  // (row, key) pairs that are allowed, per KV head; held at INT64_MAX when there are more.
  ATTENIO_API int64_t AllowedPairs() const;
  // 2 batch q_heads n m (qk_dim + v_dim), counting allowed pairs only (exact, not "half for causal").
  ATTENIO_API double Flops() const;
  friend bool operator==(const Shape&, const Shape&) = default;
};

// ---------------------------------------------------------------- Machine

// One level of the memory hierarchy. Rates are those at which the level feeds the next inner one; 0 = not measured.
struct MemoryLevel {
  std::string name;             // "reg", "L1", "L2", "LLC", "memory"
  int64_t bytes = 0;            // capacity of one instance; 0 for memory (unbounded)
  int64_t ways = 0;             // 0: managed explicitly (registers, a scratchpad)
  int64_t line_bytes = 64;
  int64_t sharers = 1;          // hardware threads that share one instance
  double bytes_per_second = 0;         // one thread alone
  double shared_bytes_per_second = 0;  // all sharers together
  double latency_seconds = 0;
  friend bool operator==(const MemoryLevel&, const MemoryLevel&) = default;
};

// What one core reaches with one kernel on register tiles of so many rows, operands in its caches.
struct TileRate {
  int64_t rows = 0;
  double product_flops = 0;      // flop/s of both products, per added dim
  double scores_per_second = 0;  // everything else that a score costs: maximum, exponential, sum, hand-out of the tile
  friend bool operator==(const TileRate&, const TileRate&) = default;
};

// Bytes of source elements of this size that one core packs per second, source and target in its caches.
struct PackRate {
  int64_t element_bytes = 0;
  double bytes_per_second = 0;
  friend bool operator==(const PackRate&, const PackRate&) = default;
};

struct KernelRates {
  std::string kernel;
  std::vector<TileRate> tiles;  // increasing rows, the last one is the kernel's quantum
  std::vector<PackRate> packing;
  friend bool operator==(const KernelRates&, const KernelRates&) = default;
};

// Memory levels from the registers outwards, and compute rates of one core. Rates are 0 until measured (`attenio calibrate`).
struct Machine {
  std::string name;
  std::vector<MemoryLevel> levels;  // innermost (registers) first; the last one is memory
  int64_t cores = 1;
  double clock_hz = 0;
  double fma_flops = 0;       // f32 flop/s of one core
  double dot_bf16_flops = 0;  // bf16 products on the vector unit, 0 = none
  double tensor_flops = 0;    // bf16 flop/s of the tensor unit of one core, 0 = none
  double exp_per_second = 0;  // softmax exponentials of one core
  std::vector<KernelRates> kernels;  // empty until measured

  // nullptr when there is no level of that name.
  ATTENIO_API const MemoryLevel* Find(std::string_view level) const;
  ATTENIO_API const KernelRates* FindKernel(std::string_view kernel) const;
  friend bool operator==(const Machine&, const Machine&) = default;
};

// This computer: hwloc where built in, else /sys; a level that cannot be found gets a common size. Never fails, caches.
ATTENIO_API const Machine& ThisMachine();

// The machine of the AttenIO paper (Table 2): one 512 KiB cache managed explicitly in front of HBM at 128 GB/s.
ATTENIO_API Machine AttenioMachine();

// ---------------------------------------------------------------- Schedule

// What stays in fast memory while the rest streams past it.
enum class Dataflow : uint8_t {
  kQueryResident,  // a Q tile and its O; K and V stream (AttenIO; FlashAttention-2 with its own tile)
  kKeyResident,    // a K/V block; Q and O stream (FlashAttention-1)
  kScoreResident,  // a tile of scores; slices of the head dimension stream (the register regime)
  kRowBuffered,    // whole score rows (FLAT)
  kUnfused,        // scores and probabilities go to memory and back (Standard)
};

// Who packs K and V for the kernel: once per KV head before its query tiles, or block by block inside a task.
enum class Packing : uint8_t { kHead, kBlock };

// Rows, keys and dims that a kernel takes at once.
struct Quantum {
  int64_t rows = 1;
  int64_t keys = 1;
  int64_t dims = 1;
  friend bool operator==(const Quantum&, const Quantum&) = default;
};

// The tile of one memory level.
struct LevelTile {
  std::string level;
  Dataflow dataflow = Dataflow::kQueryResident;
  int64_t queries = 1;  // rows of one KV head
  int64_t keys = 1;
  friend bool operator==(const LevelTile&, const LevelTile&) = default;
};

// Nested tiles, outermost level first, e.g. "L2:query-resident:420x128 L1:query-resident:56x128 reg:score-resident:14x32 pack:head".
// Key-block edges are multiples of a level's `keys`.
struct Schedule {
  std::vector<LevelTile> levels;
  Packing packing = Packing::kHead;

  ATTENIO_API std::string ToString() const;
  // Inverse of ToString. A level may be given as "512x128" (query-resident) or "score-resident:512x128"; it is then called L2,
  // L1 or reg by its place. kInvalidArgument names the word that is wrong: unknown, twice there, a size that is not 1..2^63-1.
  ATTENIO_API static Result<Schedule> Parse(std::string_view text);
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

ATTENIO_API const char* Name(Dataflow dataflow);

// ---------------------------------------------------------------- Step

enum class Op : uint8_t { kQK, kSoftmax, kPV, kFused, kFeatures, kState, kApply };

// One operation on ranges of rows, keys, dims and features of one KV head, and what comes next: the field that drives CPU
// prefetch and an accelerator's preload alike.
struct Step {
  Op op = Op::kFused;
  int level = 0;         // index into Schedule::levels of the innermost expanded level
  Range queries;         // rows
  Range keys;            // clipped to what these rows may attend
  Range dims;            // qk_dim for kQK, v_dim for kPV; all of them otherwise
  Range features;
  bool first = false;    // no earlier step of this operation has touched these rows
  bool last = false;     // no later step of this operation will
  bool edge = false;     // some (row, key) pair of the ranges is not allowed
  Range next_queries;    // the step that follows; empty after the last one
  Range next_keys;
};

// A non-owning callable: visitor(const Step&).
class StepVisitor {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, StepVisitor>>>
  StepVisitor(F&& f)  // NOLINT: implicit on purpose, lives for the call only
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* o, const Step& s) { (*static_cast<std::remove_reference_t<F>*>(o))(s); }) {}
  void operator()(const Step& step) const { call_(object_, step); }

 private:
  void* object_;
  void (*call_)(void*, const Step&);
};

// The outermost query tiles of one KV head: independent units of work. One where the outermost level shares K and V between
// all rows (key-resident, unfused). No rows: no tiles.
ATTENIO_API int64_t NumTiles(const Schedule& schedule, const Shape& shape);
ATTENIO_API Range TileQueries(const Schedule& schedule, const Shape& shape, int64_t tile);

// The only function that turns a Schedule into a sequence: calls `visit` for every step of the rows `queries` of one KV head,
// expanding the first `depth` levels of the schedule (0 = all, and the operations of score-resident tiles with them; when the
// walk is cut, the tile at the cut is one kFused step). Every allowed (row, key) pair is in exactly one step of each operation;
// steps without an allowed pair are left out. Key-block edges are absolute multiples of a level's keys; for given rows the keys
// ascend. Allocates nothing.
ATTENIO_API void ForEachStep(const Schedule& schedule, const Shape& shape, Range queries, StepVisitor visit, int depth = 0);

// ---------------------------------------------------------------- Traffic

// Words (elements) moved across one boundary, loads and stores, per operand; whole numbers, exact below 2^53.
struct Traffic {
  double q = 0, k = 0, v = 0, out = 0, scores = 0, stats = 0, packing = 0;
  double total() const { return q + k + v + out + scores + stats + packing; }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

// What happens to the maximum and sum of a row after its last visit: dead words are dropped, as in the counts of papers, or
// written back once more, as a cache does.
enum class RowStats : uint8_t { kDropped, kWrittenBack };

// Words across the outer boundary of schedule level `level` for one KV head, when the level's memory is managed explicitly and
// starts empty in every step of the level around it: a query-resident tile keeps its Q, O and statistics, a key-resident one
// its K and V, a score-resident one its scores and statistics, row-buffered its rows of scores; everything else streams.
// Closed form per row tile; equals SimulateScratchpad exactly. Derivation: docs/io.md.
ATTENIO_API Traffic Predict(const Schedule& schedule, const Shape& shape, int level, RowStats stats);

// The same count by walking ForEachStep and tracking where every row and key is.
ATTENIO_API Traffic SimulateScratchpad(const Schedule& schedule, const Shape& shape, int level, RowStats stats);

// K and V read as stored and written as packed, per KV head: once with Packing::kHead; nothing crosses with kBlock.
ATTENIO_API double PackingWords(const Schedule& schedule, const Shape& shape);

// Which schedules a lower bound speaks about.
enum class BoundKind : uint8_t {
  kCompulsory,     // any: every input is read and every output written once
  kScoreOnce,      // any that computes each score once and does not store it
  kPairsResident,  // those that consume a score while q_i, k_j, v_j and o_i are all in fast memory
  kOrder,          // any, even with fast matrix multiplication; up to an unknown constant: compare shapes of curves only
};
ATTENIO_API const char* Name(BoundKind kind);

// Words that must cross the boundary of a fast memory of `words`, per KV head (n rows, p allowed pairs, d the smaller dim):
//   kCompulsory     rows (dk + dv) + keys (dk + dv)
//   kScoreOnce      max(kCompulsory, 2 p d^2 / (S + 2 d^2) - S)
//   kPairsResident  max(kScoreOnce, 4 p d^2 / S - S - n d), from (S + X)^2 / 16 d^2 pairs in X moves at X = S
//   kOrder          p d^2 / S for S >= d^2, p d / sqrt(S) below (Dao et al. 2022; Saha and Ye 2024)
ATTENIO_API double LowerBound(const Shape& shape, double words, BoundKind kind);

// ---------------------------------------------------------------- Simulated caches

enum class Operand : uint8_t { kQ, kK, kV, kOut, kScores, kStats, kCount };
ATTENIO_API const char* Name(Operand operand);

// Lines that one cache level fetched from outside and wrote back to outside, per operand.
struct LineTraffic {
  std::string level;
  int64_t line_bytes = 64;
  int64_t fills[static_cast<int>(Operand::kCount)] = {};
  int64_t writebacks[static_cast<int>(Operand::kCount)] = {};
  int64_t total_fills() const;
  int64_t total_bytes() const;  // fills and write-backs
};

struct CacheOptions {
  int64_t packed_bytes = 4;  // an element of packed Q, K, V
  int64_t out_bytes = 4;     // an element of O, scores, statistics
  int64_t kv_heads = 1;      // simulated one after the other
  // Workers, each with a query tile of the same head; their steps take turns. Levels with sharers are shared by that many of them,
  // the levels' fills and write-backs are those of all. 1 to 1024.
  int64_t threads = 1;
  // Levels of the schedule to expand, as in ForEachStep; 2 walks strips as the executor does, 0 goes down to register tiles.
  int depth = 2;
};

// Runs the steps of the schedule through the machine's caches (those with ways; line-granular, set-associative, LRU,
// write-allocate, write-back) with the executor's layout: source K and V are packed as Schedule::packing says, Q tile, O, row
// statistics and one strip of scores are contiguous pieces of a worker's workspace. Level l of the result counts its own misses.
// kInvalidArgument when the machine has no cache.
ATTENIO_API Result<std::vector<LineTraffic>> SimulateCaches(const Schedule& schedule, const Shape& shape, const Machine& machine,
                                                            const CacheOptions& options);

// ---------------------------------------------------------------- Solve

struct SolveOptions {
  Quantum quantum;        // of the kernel that will run the schedule
  int64_t threads = 1;    // workers that run the call; influences the query tile only
  int64_t packed_bytes = 4;  // an element of Q, K, V as the kernel reads it (packing may widen 16-bit inputs)
  int64_t out_bytes = 4;     // accumulators of O and the scores
};

// The schedule that moves least across the L2 boundary among query-resident ones that fit (theory: AttenIO, ASPLOS 2026,
// Sec. 3, carried to a cache with ways: the streamed block is reserved twice and one way is left for the stream), its L1 strip
// and the register tile. Key blocks depend on dims, packed element size, quantum and machine only, the L1 strip on the tile besides;
// packing is by block where there is one tile only.
// kInvalidArgument when a machine or shape makes no sense, or when not even one quantum of scores fits.
ATTENIO_API Result<Schedule> Solve(const Shape& shape, const Machine& machine, const SolveOptions& options);

// The tile of `dataflow` for one memory level alone that moves fewest bytes by Predict (statistics dropped) among those that fit:
// every tile of the quantum is covered where no band cuts the keys. kInvalidArgument as in Solve, or when none fits.
ATTENIO_API Result<LevelTile> SolveLevel(const Shape& shape, const MemoryLevel& level, const SolveOptions& options,
                                         Dataflow dataflow);
// The cheapest of all dataflows.
ATTENIO_API Result<LevelTile> SolveLevel(const Shape& shape, const MemoryLevel& level, const SolveOptions& options);

// Bytes of a Traffic: Q, K, V (and packing) of packed_bytes, the rest of out_bytes each.
ATTENIO_API double Bytes(const Traffic& traffic, const SolveOptions& options);

// `outer` with the levels of Solve that it does not have, fitted into its innermost tile (same keys, rows rounded to the quantum).
ATTENIO_API Result<Schedule> Complete(const Schedule& outer, const Shape& shape, const Machine& machine,
                                      const SolveOptions& options);

}  // namespace attenio

#endif  // ATTENIO_IO_H_
