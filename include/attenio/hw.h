// A deterministic model of attention accelerators that walks the library's own Steps: cycles, bytes, utilisation, stalls,
// energy and area of a schedule on given hardware, and the same schedule on a CPU. Parameters and their sources:
// docs/hardware-model.md. Everything is a value; every function is pure and may be called from any thread.
#ifndef ATTENIO_HW_H_
#define ATTENIO_HW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attenio/export.h"
#include "attenio/io.h"
#include "attenio/status.h"

namespace attenio {

// ---------------------------------------------------------------- Accelerator

// Area and power at full activity of one component; 0 = not known.
struct ComponentRating {
  double area_mm2 = 0;
  double power_mw = 0;
  friend bool operator==(const ComponentRating&, const ComponentRating&) = default;
};

// Hardware parameters; the defaults are the AttenIO paper's accelerator (ASPLOS 2026, Tables 2 and 3).
struct Accelerator {
  std::string name = "attenio";
  int64_t mac_lines = 64;
  int64_t macs_per_line = 32;
  int64_t exp_modules = 128;      // exponentials a cycle; FuseMax: PEs of the 1-D array
  int64_t kv_buffer_bytes = 256;  // holds one row of K or V; 0: there is none, blocks stay in the cache
  int64_t cache_bytes = 512 * 1024;
  int64_t memory_channels = 16;
  double channel_bytes_per_second = 8e9;
  double clock_hz = 1e9;
  int64_t element_bytes = 2;

  int64_t memory_latency_cycles = 0;   // from request to first byte; the paper's figures imply that it is not exposed
  int64_t softmax_overlap_cycles = 3;  // fitted: of the pipelined softmax, hidden behind the ends of both products
  double demand_efficiency =
      0.6;  // fitted: share of the bandwidth that FLAT and Standard reach on the AttenIO hardware

  // Memory, array and EXP unit work through queues of their own for FLAT and Standard (FuseMax's buffers), not one phase
  // after the other.
  bool decoupled = false;
  bool spill_when_cheaper = false;  // FLAT may write scores to memory whenever that moves less, not only if no row fits
  int64_t spill_rows = 1024;        // rows that share K and V when FLAT spills
  int64_t mac_exp_cycles = 7;       // one exponential on a MAC (FuseMax)

  ComponentRating pe{2.44, 2583.92};
  ComponentRating exp{0.48, 485.84};
  ComponentRating kv_buffer{0.01, 0.65};
  ComponentRating cache{0.79, 162.52};
  double memory_pj_per_byte = 31.2;  // HBM2, 3.9 pJ/bit (O'Connor et al., MICRO 2017)

  int64_t macs() const { return mac_lines * macs_per_line; }
  int64_t cache_words() const { return element_bytes > 0 ? cache_bytes / element_bytes : 0; }
  double bytes_per_cycle() const { return static_cast<double>(memory_channels) * channel_bytes_per_second / clock_hz; }
  double peak_flops() const { return 2.0 * static_cast<double>(macs()) * clock_hz; }
  friend bool operator==(const Accelerator&, const Accelerator&) = default;
};

// kInvalidArgument names the first parameter that no hardware can have (no MACs, negative bandwidth, ...).
ATTENIO_API Status Validate(const Accelerator& accelerator);

// The cloud configuration of FuseMax (MICRO 2024): 256 x 256 PEs, a 1-D array of 256, 16 MiB, 400 GiB/s, 940 MHz. Its
// power is not part of the published figures.
ATTENIO_API Accelerator FusemaxCloud();

// The AttenIO accelerator with another peak: lines, EXP modules, channels, cache, area and power in proportion.
// kInvalidArgument when that is less than one line of MACs or not a number.
ATTENIO_API Result<Accelerator> ScaledAttenio(double peak_flops);

// ---------------------------------------------------------------- What runs on it

enum class HwDataflow : uint8_t {
  kAttenio,   // one key at a time against a tile of queries, loads overlapped, softmax pipelined
  kFlash2,    // FlashAttention-2's tiles, loads and softmax passes one after the other
  kFlat,      // whole score rows on chip
  kStandard,  // scores and probabilities through memory
  kFusemax,   // tiles of the 2-D array, running softmax corrections on the 1-D array at the same time
};
ATTENIO_API const char* Name(HwDataflow dataflow);
ATTENIO_API Result<HwDataflow> ParseHwDataflow(std::string_view name);

// Which tile of queries and keys a query-resident dataflow (attenio, flash2) takes; M words of cache.
enum class TileRule : uint8_t {
  kOwn,       // the dataflow's own: kPaper for attenio, kFlash2 for flash2
  kPaper,     // floor((M - d) / (2 d + 4)) x 1, the largest that fits (AttenIO, Sec. 3)
  kBalanced,  // as many tiles as kPaper, of equal size
  kFlash2,    // min(ceil(M / 4 d), d) x ceil(M / 4 d)
  kQuarter,   // ceil(M / 4 d) x ceil(M / 4 d): FlashAttention-2's rule without the limit d
};
ATTENIO_API const char* Name(TileRule rule);

// What runs at the same time. Off means: one after the other.
struct HwOverlap {
  bool intra_inner = true;        // load of V_j with Q K_j
  bool inter_inner = true;        // load of K_{j+1} with P_j V_j
  bool inter_outer = true;        // load of the next Q tile with the end of this one and the store of its O
  bool pipelined_softmax = true;  // one stream through the EXP unit instead of a pass for every operation
  friend bool operator==(const HwOverlap&, const HwOverlap&) = default;
};

struct ProjectOptions {
  HwDataflow dataflow = HwDataflow::kAttenio;
  TileRule tile = TileRule::kOwn;
  std::optional<HwOverlap> overlap;    // default: all for attenio, none for flash2; the others do not have the choice
  std::optional<Schedule> schedule;  // instead of a rule; one level of the dataflow's kind
  // Every event one by one, instead of multiplying what repeats. Same figures, to the cycle.
  bool every_event = false;
};

// Per component: PE array, EXP unit, KV buffer, cache, off-chip memory.
struct ByComponent {
  double pe = 0, exp = 0, kv_buffer = 0, cache = 0, memory = 0;
  double total() const { return pe + exp + kv_buffer + cache + memory; }
};

// One run over all heads and batch entries. Utilisations are shares of `cycles`.
struct Projection {
  Schedule schedule;
  int64_t cycles = 0;
  double seconds = 0;
  Traffic bytes;
  int64_t pe_busy = 0;      // cycles
  int64_t exp_busy = 0;     // cycles, serial softmax passes included
  int64_t memory_busy = 0;  // cycles
  int64_t stall = 0;        // cycles in which the array waits for memory and for nothing else
  double exponentials = 0;
  double pe_utilisation = 0;      // array busy
  double mac_utilisation = 0;     // useful products of all products the MACs could have done
  double exp_utilisation = 0;     // exponentials of all the modules could have done
  double exp_occupancy = 0;       // EXP unit busy
  double memory_utilisation = 0;  // channels busy
  double stall_share = 0;
  ByComponent energy_mj;  // Table 3 power by activity; memory: bytes moved
  ByComponent power_mw;   // energy / time
  int64_t steps = 0;      // Steps that were visited
};

// kInvalidArgument: unphysical hardware, a shape that makes no sense, a cache or buffer too small for one row.
ATTENIO_API Result<Projection> Project(const Accelerator& accelerator, const Shape& shape,
                                       const ProjectOptions& options = {});

// The schedule that Project walks.
ATTENIO_API Result<Schedule> HwSchedule(const Accelerator& accelerator, const Shape& shape,
                                        const ProjectOptions& options);

// ---------------------------------------------------------------- Timeline

enum class Resource : uint8_t { kMemory, kPe, kExp };
ATTENIO_API const char* Name(Resource resource);

enum class Work : uint8_t { kLoadQ, kLoadK, kLoadV, kLoadScores, kStoreScores, kStoreO, kQK, kSoftmax, kPV, kFinish };
ATTENIO_API const char* Name(Work work);

// A resource at work on the rows and keys of one step, in cycles [begin, end).
struct Event {
  Resource resource = Resource::kPe;
  Work work = Work::kQK;
  Range queries;
  Range keys;
  int64_t begin = 0;
  int64_t end = 0;
};

// The events of the first head that touch the cycles of `window`, in the order in which they were issued. Errors as Project.
ATTENIO_API Result<std::vector<Event>> HwTimeline(const Accelerator& accelerator, const Shape& shape,
                                                  const ProjectOptions& options, Range window);

// ---------------------------------------------------------------- Whole model

// A decoder-only transformer; projections and MLP are GEMMs on the array.
struct Transformer {
  std::string name;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t mlp = 0;           // width of the MLP
  int64_t mlp_matrices = 2;  // 3: gated
};
ATTENIO_API Transformer Gpt3();       // 175B: 96 layers, 96 heads, d = 128
ATTENIO_API Transformer Llama3_8B();  // 32 layers, 32 heads on 8 KV heads, d = 128

// One prefill of `tokens` tokens, batch 1.
struct Prefill {
  double seconds = 0;
  double attention_seconds = 0;
  double gemm_seconds = 0;
  double attention_share = 0;       // of the time
  double attention_flop_share = 0;  // of the floating-point operations
};

enum class Masking : uint8_t { kNone, kCausal };

// Errors as Project.
ATTENIO_API Result<Prefill> ProjectPrefill(const Accelerator& accelerator, const Transformer& model, int64_t tokens,
                                           Masking masking, const ProjectOptions& options = {});

// ---------------------------------------------------------------- CPUs

// What the kernel and the executor add to a schedule.
struct CpuOptions {
  Quantum quantum;           // of the kernel
  int64_t packed_bytes = 4;  // an element of Q, K, V as the kernel reads it
  int64_t out_bytes = 4;     // accumulators of O
  int64_t threads = 1;
  std::string kernel;        // whose measured rates in machine.kernels count; not there: the machine's FMA and exp rates
  double product_flops = 0;  // of one core for the kernel's products, instead of what was measured; 0: measured
};

// Transfer time of one memory level feeding the next inner one.
struct LevelTime {
  std::string level;
  double bytes = 0;
  double seconds = 0;
};

// Predicted time of one call with warm inputs. Products and the rest of softmax compete for the same units and add up;
// transfers run beside them; packing (K, V, Q, and O on its way out) comes on top.
struct CpuProjection {
  double seconds = 0;
  double product_seconds = 0;
  double exp_seconds = 0;  // softmax: the exponentials and whatever else a score costs
  double packing_seconds = 0;
  std::vector<LevelTime> levels;  // innermost first
  std::string bound;              // what takes longest: "products", "exp", "packing" or a level
};

// The schedule (outermost level: the query tile; the next one, if any: the strip) on a calibrated machine, by its Steps.
// kInvalidArgument: no measured rates (`attenio calibrate`), a shape or schedule that makes no sense.
ATTENIO_API Result<CpuProjection> ProjectTime(const Shape& shape, const Machine& machine, const Schedule& schedule,
                                              const CpuOptions& options);

}  // namespace attenio

#endif  // ATTENIO_HW_H_
