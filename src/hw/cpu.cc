// A schedule on a CPU: bounds of the units and of every memory level, from measured rates alone.
#include <algorithm>

#include "attenio/hw.h"
#include "base/math.h"

namespace attenio {
namespace {

// Sums over the steps of one KV head; `largest` over those of its longest tile.
struct Sums {
  double products = 0;  // seconds
  double scores = 0;    // seconds
  double flops = 0;
  double rows = 0;     // that tiles pack and write
  double strips = 0;   // bytes that strips exchange with the level of the query tile
  double tiles = 0;    // bytes that query tiles exchange with the level beyond
  double largest = 0;  // products and scores
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
  if (m.FindKernel(o.kernel) == nullptr && (!(m.exp_per_second > 0) || !(o.product_flops > 0 || m.fma_flops > 0))) {
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
    rates_ = machine.FindKernel(options.kernel);
  }

  CpuProjection Run() {
    Walk();
    CpuProjection p;
    const double share = Share();
    p.product_seconds = work_.products * heads_ * share;
    p.exp_seconds = work_.scores * heads_ * share;
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
  // Seconds that a flop and a score of one step take.
  struct Cost {
    double flop, score;
  };

  // A tile of `rows` rows, per flop and per score of one row: between two measured tiles the time of the whole tile is a line.
  Cost TileCost(int64_t rows) const {
    if (rates_ == nullptr) return {1 / Flops(machine_.fma_flops), 1 / machine_.exp_per_second};
    const std::vector<TileRate>& tiles = rates_->tiles;
    const auto after = std::find_if(tiles.begin(), tiles.end(), [rows](const TileRate& t) { return t.rows >= rows; });
    const TileRate& upper = after == tiles.end() ? tiles.back() : *after;
    const TileRate& lower = after == tiles.begin() || after == tiles.end() ? upper : *(after - 1);
    const auto r = static_cast<double>(std::min(rows, upper.rows));
    const double b = static_cast<double>(upper.rows), a = static_cast<double>(lower.rows);
    const double at = b > a ? (r - a) / (b - a) : 1;
    const auto line = [&](double from, double to) { return (a / from + at * (b / to - a / from)) / r; };
    return {line(Flops(lower.product_flops), Flops(upper.product_flops)),
            line(lower.scores_per_second, upper.scores_per_second)};
  }
  double Flops(double measured) const { return options_.product_flops > 0 ? options_.product_flops : measured; }

  void Walk() {
    const int64_t tiles = NumTiles(schedule_, shape_);
    const int depth = std::min<int>(2, static_cast<int>(schedule_.levels.size()));
    for (int64_t t = 0; t < tiles; ++t) {
      const Range rows = TileQueries(schedule_, shape_, t);
      const double before = work_.products + work_.scores;
      Range resident;  // the key block that the query tile works on
      ForEachStep(
          schedule_, shape_, rows, [&](const Step& step) { Add(step, &resident); }, depth);
      work_.rows += static_cast<double>(rows.size());
      work_.tiles +=
          static_cast<double>(rows.size()) * static_cast<double>((shape_.qk_dim + shape_.v_dim) * shape_.element_bytes);
      work_.largest = std::max(work_.largest, work_.products + work_.scores - before);
      ++work_.units;
    }
  }

  void Add(const Step& step, Range* resident) {
    // Kernels visit whole panels of keys.
    const double keys = static_cast<double>(RoundUp(step.keys.end, options_.quantum.keys) -
                                            RoundDown(step.keys.begin, options_.quantum.keys));
    const int64_t rows = step.queries.size(), tail = rows % options_.quantum.rows;
    AddTiles(rows - tail, options_.quantum.rows, keys);
    AddTiles(tail, tail, keys);
    work_.strips += static_cast<double>(rows) * row_bytes_ + keys * key_bytes_;
    if (step.keys.begin / schedule_.levels[0].keys != resident->begin / schedule_.levels[0].keys || resident->empty()) {
      work_.tiles += keys * key_bytes_;
      *resident = step.keys;
    }
  }

  void AddTiles(int64_t rows, int64_t tile_rows, double keys) {
    if (rows == 0) return;
    const Cost cost = TileCost(tile_rows);
    const double pairs = static_cast<double>(rows) * keys;
    work_.flops += pairs * flops_per_pair_;
    work_.products += pairs * flops_per_pair_ * cost.flop;
    work_.scores += pairs * cost.score;
  }

  // Of all work, what the busiest thread does: whole tiles; of a band, whose tiles differ, half the longest one more.
  double Share() const {
    const double units = heads_ * static_cast<double>(std::max<int64_t>(1, work_.units));
    const auto threads = static_cast<double>(options_.threads);
    const double all = (work_.products + work_.scores) * heads_;
    if (options_.threads == 1 || all == 0) return 1;
    if (!shape_.banded()) return static_cast<double>(CeilDiv(static_cast<int64_t>(units), options_.threads)) / units;
    return std::min(1.0, 1 / threads + 0.5 * work_.largest / all);
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
    if (schedule_.packing == Packing::kHead) add(Holding(PackedBytes() * heads_, tile_level), work_.tiles * all);
  }

  // Seconds in which one thread packs (or unpacks) `count` elements of this size whose source lies in `from`, into `to`: at the
  // rate of the kernel's code, or of the slower level when that is less.
  double Repack(double count, int64_t element_bytes, const MemoryLevel& from, const MemoryLevel& to) const {
    double code = 0;
    for (size_t i = 0; rates_ != nullptr && i < rates_->packing.size(); ++i) {
      const PackRate& p = rates_->packing[i];
      if (p.element_bytes == element_bytes) code = count * static_cast<double>(element_bytes) / p.bytes_per_second;
    }
    const double read = count * static_cast<double>(element_bytes) / Bandwidth(from);
    const double write = count * static_cast<double>(options_.packed_bytes) / Bandwidth(to);
    return std::max(code, read + write);
  }

  // K and V from where the call's tensors fit to where the packed heads fit, or block by block to the level of the tile; the
  // rows of Q and O likewise.
  double Packing(double share) const {
    const bool blocks = schedule_.packing == attenio::Packing::kBlock;
    const double times =
        blocks ? static_cast<double>(work_.units) * heads_ * share : heads_ / static_cast<double>(options_.threads);
    const MemoryLevel& from = Holding(SourceBytes(), "");
    const MemoryLevel* tile = machine_.Find(schedule_.levels[0].level);
    const MemoryLevel& near = tile != nullptr ? *tile : machine_.levels.back();
    const MemoryLevel& to = blocks ? near : Holding(PackedBytes() * heads_, "");
    const double dims = static_cast<double>(shape_.qk_dim + shape_.v_dim);
    return times * Repack(static_cast<double>(shape_.kv_len) * dims, shape_.element_bytes, from, to) +
           heads_ * share * Repack(work_.rows * dims, shape_.element_bytes, from, near);
  }

  const Shape& shape_;
  const Machine& machine_;
  const Schedule& schedule_;
  const CpuOptions& options_;
  const KernelRates* rates_;
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
