// A schedule on a CPU: bounds of the units and of every memory level, from measured rates alone.
#include <algorithm>

#include "attenio/hw.h"
#include "base/math.h"

namespace attenio {
namespace {

// Sums over the steps of one KV head; `largest` over those of its longest tile.
struct Sums {
  double flops = 0;
  double exponentials = 0;
  double strips = 0;  // bytes that strips exchange with the level of the query tile
  double tiles = 0;   // bytes that query tiles exchange with the level beyond
  double largest_flops = 0;
  int64_t units = 0;
};

Status Check(const Shape& s, const Machine& m, const Schedule& schedule, const CpuOptions& o) {
  if (std::min({s.batch, s.q_heads, s.kv_heads, s.element_bytes}) < 1 || s.q_heads % s.kv_heads != 0 ||
      std::min({s.q_len, s.kv_len, s.qk_dim, s.v_dim}) < 0) {
    return Status::Error(Code::kInvalidArgument, "shape: extents make no sense");
  }
  if (schedule.levels.empty()) return Status::Error(Code::kInvalidArgument, "schedule: it has no level");
  if (std::min({o.quantum.rows, o.quantum.keys, o.quantum.dims, o.packed_bytes, o.out_bytes, o.threads}) < 1) {
    return Status::Error(Code::kInvalidArgument, "options: quantum, element sizes and threads must be positive");
  }
  if (!(m.exp_per_second > 0) || !(o.product_flops > 0 || m.fma_flops > 0)) {
    return Status::Error(Code::kInvalidArgument, "machine %.64s: rates are not measured", m.name.c_str());
  }
  for (const MemoryLevel& level : m.levels) {
    if (level.name != "reg" && !(level.bytes_per_second > 0)) {
      return Status::Error(Code::kInvalidArgument, "machine %.64s: the bandwidth of %.32s is not measured",
                           m.name.c_str(), level.name.c_str());
    }
  }
  return {};
}

class Cpu {
 public:
  Cpu(const Shape& shape, const Machine& machine, const Schedule& schedule, const CpuOptions& options)
      : shape_(shape), machine_(machine), schedule_(schedule), options_(options) {
    const double dims = static_cast<double>(shape.qk_dim + shape.v_dim);
    row_bytes_ = static_cast<double>(shape.qk_dim * options.packed_bytes + 2 * shape.v_dim * options.out_bytes);
    key_bytes_ = dims * static_cast<double>(options.packed_bytes);
    flops_per_pair_ = 2.0 * static_cast<double>(shape.qk_dim + RoundUp(shape.v_dim, options.quantum.dims));
    heads_ = static_cast<double>(shape.batch) * static_cast<double>(shape.kv_heads);
  }

  CpuProjection Run() {
    Walk();
    CpuProjection p;
    const double rate = options_.product_flops > 0 ? options_.product_flops : machine_.fma_flops;
    const double share = Share();
    p.product_seconds = work_.flops * heads_ * share / rate;
    p.exp_seconds = work_.exponentials * heads_ * share / machine_.exp_per_second;
    AddLevels(share, &p);
    p.packing_seconds = Packing(share);
    double longest = p.product_seconds + p.exp_seconds;
    p.bound = p.product_seconds >= p.exp_seconds ? "products" : "exp";
    for (const LevelTime& level : p.levels) {
      if (level.seconds <= longest) continue;
      longest = level.seconds;
      p.bound = level.level;
    }
    p.seconds = longest + p.packing_seconds;
    if (p.packing_seconds > longest) p.bound = "packing";
    return p;
  }

 private:
  void Walk() {
    const int64_t tiles = NumTiles(schedule_, shape_);
    const int depth = std::min<int>(2, static_cast<int>(schedule_.levels.size()));
    for (int64_t t = 0; t < tiles; ++t) {
      const Range rows = TileQueries(schedule_, shape_, t);
      const double before = work_.flops;
      Range resident;  // the key block that the query tile works on
      ForEachStep(
          schedule_, shape_, rows, [&](const Step& step) { Add(step, &resident); }, depth);
      work_.tiles += static_cast<double>(rows.size()) *
                     (static_cast<double>(shape_.qk_dim) * static_cast<double>(shape_.element_bytes) +
                      static_cast<double>(shape_.v_dim) * static_cast<double>(shape_.element_bytes));
      work_.largest_flops = std::max(work_.largest_flops, work_.flops - before);
      ++work_.units;
    }
  }

  void Add(const Step& step, Range* resident) {
    // Kernels visit whole panels of keys; rows beyond the strip cost nothing.
    const double keys = static_cast<double>(RoundUp(step.keys.end, options_.quantum.keys) -
                                            RoundDown(step.keys.begin, options_.quantum.keys));
    const auto rows = static_cast<double>(step.queries.size());
    work_.flops += rows * keys * flops_per_pair_;
    work_.exponentials += rows * keys;
    work_.strips += rows * row_bytes_ + keys * key_bytes_;
    if (step.keys.begin / schedule_.levels[0].keys != resident->begin / schedule_.levels[0].keys || resident->empty()) {
      work_.tiles += keys * key_bytes_;
      *resident = step.keys;
    }
  }

  // Of all work, what the busiest thread does: whole tiles; of a band, whose tiles differ, half the longest one more.
  double Share() const {
    const double units = heads_ * static_cast<double>(std::max<int64_t>(1, work_.units));
    const auto threads = static_cast<double>(options_.threads);
    if (options_.threads == 1 || work_.flops == 0) return 1;
    if (!shape_.banded()) return static_cast<double>(CeilDiv(static_cast<int64_t>(units), options_.threads)) / units;
    return std::min(1.0, 1 / threads + 0.5 * work_.largest_flops / (work_.flops * heads_));
  }

  // Bytes per second of one of the threads.
  double Bandwidth(const MemoryLevel& level) const {
    const auto together = static_cast<double>(std::min<int64_t>(options_.threads, std::max<int64_t>(1, level.sharers)));
    if (together <= 1 || !(level.shared_bytes_per_second > 0)) return level.bytes_per_second;
    return std::min(level.bytes_per_second, level.shared_bytes_per_second / together);
  }

  // The innermost level outside of `inside` that holds `bytes`; memory when none does.
  const MemoryLevel& Holding(double bytes, std::string_view inside) const {
    bool outside = inside.empty();
    for (const MemoryLevel& level : machine_.levels) {
      if (outside && level.bytes > 0 && static_cast<double>(level.bytes) >= bytes && level.name != "reg") return level;
      outside |= level.name == inside;
    }
    return machine_.levels.back();
  }

  double SourceBytes() const {
    const double kv = static_cast<double>(shape_.kv_len) * static_cast<double>(shape_.qk_dim + shape_.v_dim);
    const double qo = static_cast<double>(shape_.rows()) * static_cast<double>(shape_.qk_dim + shape_.v_dim);
    return heads_ * (kv + qo) * static_cast<double>(shape_.element_bytes);
  }

  double PackedBytes() const { return static_cast<double>(shape_.kv_len) * key_bytes_; }  // a KV head

  void AddLevels(double share, CpuProjection* p) const {
    const auto add = [&](const MemoryLevel& level, double bytes) {
      p->levels.push_back({level.name, bytes, bytes / Bandwidth(level)});
    };
    const double all = heads_ * share;
    // A register tile of quantum.rows x quantum.keys reads that many rows and keys of one dim for each of its products.
    const auto rows = static_cast<double>(std::min(options_.quantum.rows, std::max<int64_t>(1, shape_.rows())));
    const double per_flop =
        0.5 * static_cast<double>(options_.packed_bytes) * (1 / rows + 1 / static_cast<double>(options_.quantum.keys));
    if (const MemoryLevel* l1 = machine_.Find("L1")) add(*l1, work_.flops * all * per_flop);
    const std::string& tile_level = schedule_.levels[0].level;
    if (const MemoryLevel* l2 = machine_.Find(tile_level)) add(*l2, work_.strips * all);
    // Packed key blocks of one head come from where a head fits; packed block by block, they are in the tile's level already.
    if (schedule_.packing == Packing::kHead) add(Holding(PackedBytes(), tile_level), work_.tiles * all);
  }

  // K and V read from where the call's tensors fit, written packed to where a head fits.
  double Packing(double share) const {
    const bool blocks = schedule_.packing == attenio::Packing::kBlock;
    const double times =
        blocks ? static_cast<double>(work_.units) * heads_ * share : heads_ / static_cast<double>(options_.threads);
    const double source = static_cast<double>(shape_.kv_len) * static_cast<double>(shape_.qk_dim + shape_.v_dim) *
                          static_cast<double>(shape_.element_bytes);
    const MemoryLevel& from = Holding(SourceBytes(), "");
    const MemoryLevel* tile = machine_.Find(schedule_.levels[0].level);
    const MemoryLevel& to = blocks && tile != nullptr ? *tile : Holding(PackedBytes(), "");
    return times * (source / Bandwidth(from) + PackedBytes() / Bandwidth(to));
  }

  const Shape& shape_;
  const Machine& machine_;
  const Schedule& schedule_;
  const CpuOptions& options_;
  double row_bytes_, key_bytes_, flops_per_pair_, heads_;
  Sums work_;
};

}  // namespace

Result<CpuProjection> ProjectTime(const Shape& shape, const Machine& machine, const Schedule& schedule,
                                  const CpuOptions& options) {
  if (Status s = Check(shape, machine, schedule, options); !s.ok()) return s;
  return Cpu(shape, machine, schedule, options).Run();
}

}  // namespace attenio
