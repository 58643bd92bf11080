#include "hw/paper.h"

#include <array>
#include <cmath>

namespace attenio::hw {
namespace {

constexpr int64_t kLengths[] = {8192, 16384, 32768, 65536, 131072};
constexpr int64_t kHidden = 2048;  // of the paper's model: heads = hidden / d

// Published values, where they stand, and how close validation asks the model to come.
struct Published {
  const char* item;
  double d64, d128;
  const char* where;
  double tolerance, points;
};
constexpr Published kPublished[] = {
    {"speedup_gm_over_flat", 8.8, 9.9, "Fig. 10", 0.15, 0},
    {"speedup_gm_over_standard", 2.5, 1.9, "Fig. 10", 0.15, 0},
    {"speedup_gm_over_flash2", 1.6, 1.3, "Fig. 10", 0.06, 0},
    {"io_gm_ratio_flat", 273.7, 148.8, "Sec. 6.2.1", 0.005, 0},
    {"io_gm_ratio_standard", 57.0, 16.4, "Sec. 6.2.1", 0.005, 0},
    {"io_gm_ratio_flash2", 26.8, 7.3, "Sec. 6.2.1", 0.005, 0},
    {"io_flat_over_standard_64K", 10.05, 18.96, "Fig. 11", 0.005, 0},
    {"io_flat_over_standard_128K", 30.12, 56.88, "Fig. 11", 0.005, 0},
    {"pe_utilisation", 0.821, 0.903, "Fig. 12", 0, 0.01},
    {"exp_utilisation", 0.199, 0.112, "Fig. 12", 0, 0.01},
    {"exp_utilisation_over_flash2", 3.3, 2.7, "Sec. 6.2.2", 0, 0},
    {"stall_share_8K", 0.0032, 0.0033, "Fig. 13", 0.25, 0},
    {"stall_share_128K", 0.0002, 0.0002, "Fig. 13", 0.25, 0},
    {"energy_efficiency_over_flash2", 1.5, 1.3, "Sec. 6.2.2", 0.15, 0},
};

PaperRow Row(const std::string& item, int64_t d, double model) {
  PaperRow row;
  row.item = item;
  row.head_dim = d;
  row.model = model;
  for (const Published& p : kPublished) {
    if (item != p.item) continue;
    row.published = d == 64 ? p.d64 : p.d128;
    row.where = p.where;
    row.tolerance = p.tolerance;
    row.points = p.points;
  }
  return row;
}

std::string Kilo(int64_t n) { return std::to_string(n / 1024) + "K"; }

Shape PaperShape(int64_t n, int64_t d) {
  Shape s;
  s.q_heads = s.kv_heads = kHidden / d;
  s.q_len = s.kv_len = n;
  s.qk_dim = s.v_dim = d;
  s.element_bytes = Accelerator{}.element_bytes;
  return s;
}

// The inputs are this file's own: they are valid.
Projection Must(const Accelerator& hw, const Shape& shape, const ProjectOptions& options) {
  return Project(hw, shape, options).value();
}

ProjectOptions Of(HwDataflow dataflow) {
  ProjectOptions options;
  options.dataflow = dataflow;
  return options;
}

class GeometricMean {
 public:
  void Add(double value) {
    sum_ += std::log(value);
    ++count_;
  }
  double value() const { return std::exp(sum_ / count_); }

 private:
  double sum_ = 0;
  int count_ = 0;
};

constexpr HwDataflow kBaselines[] = {HwDataflow::kFlat, HwDataflow::kStandard, HwDataflow::kFlash2};

double Time(const Projection& p) { return static_cast<double>(p.cycles); }

// Speed-up and I/O against one baseline, per length and as geometric mean.
void AddRatios(const Accelerator& hw, int64_t d, const std::string& prefix, bool lengths, std::vector<PaperRow>* rows) {
  for (const HwDataflow baseline : kBaselines) {
    GeometricMean speedup, io;
    for (const int64_t n : kLengths) {
      const Projection ours = Must(hw, PaperShape(n, d), {}), theirs = Must(hw, PaperShape(n, d), Of(baseline));
      speedup.Add(Time(theirs) / Time(ours));
      io.Add(theirs.bytes.total() / ours.bytes.total());
      if (!lengths) continue;
      rows->push_back(Row(prefix + "speedup_over_" + Name(baseline) + "_" + Kilo(n), d, Time(theirs) / Time(ours)));
      rows->push_back(
          Row(prefix + "io_ratio_" + Name(baseline) + "_" + Kilo(n), d, theirs.bytes.total() / ours.bytes.total()));
    }
    rows->push_back(Row(prefix + "speedup_gm_over_" + Name(baseline), d, speedup.value()));
    rows->push_back(Row(prefix + "io_gm_ratio_" + Name(baseline), d, io.value()));
  }
}

void AddUtilisations(int64_t d, std::vector<PaperRow>* rows) {
  const Accelerator hw;
  GeometricMean pe, exp, exp_ratio, energy;
  for (const int64_t n : kLengths) {
    const Shape shape = PaperShape(n, d);
    const Projection ours = Must(hw, shape, {}), flash = Must(hw, shape, Of(HwDataflow::kFlash2));
    const Projection flat = Must(hw, shape, Of(HwDataflow::kFlat)),
                     standard = Must(hw, shape, Of(HwDataflow::kStandard));
    rows->push_back(Row("io_flat_over_standard_" + Kilo(n), d, flat.bytes.total() / standard.bytes.total()));
    rows->push_back(Row("stall_share_" + Kilo(n), d, ours.stall_share));
    rows->push_back(Row("stall_share_flash2_" + Kilo(n), d, flash.stall_share));
    pe.Add(ours.pe_utilisation);
    exp.Add(ours.exp_utilisation);
    exp_ratio.Add(ours.exp_utilisation / flash.exp_utilisation);
    energy.Add(flash.energy_mj.total() / ours.energy_mj.total());
  }
  rows->push_back(Row("pe_utilisation", d, pe.value()));
  rows->push_back(Row("exp_utilisation", d, exp.value()));
  rows->push_back(Row("exp_utilisation_over_flash2", d, exp_ratio.value()));
  rows->push_back(Row("energy_efficiency_over_flash2", d, energy.value()));
}

void AddTable3(std::vector<PaperRow>* rows) {
  const Accelerator hw;
  struct Part {
    const char* name;
    ComponentRating rating;
    double area, power;  // as printed
  };
  const Part parts[] = {{"pe", hw.pe, 2.44, 2583.92},
                        {"exp", hw.exp, 0.48, 485.84},
                        {"kv_buffer", hw.kv_buffer, 0.01, 0.65},
                        {"cache", hw.cache, 0.79, 162.52}};
  double area = 0, power = 0;
  for (const Part& part : parts) {
    rows->push_back({std::string("area_mm2_") + part.name, 0, part.area, part.rating.area_mm2, "Table 3", 1e-9, 0});
    rows->push_back({std::string("power_mw_") + part.name, 0, part.power, part.rating.power_mw, "Table 3", 1e-9, 0});
    area += part.rating.area_mm2;
    power += part.rating.power_mw;
  }
  rows->push_back({"area_mm2_pe_exp_kv_cache", 0, 3.72, area, "Table 3, total", 1e-9, 0});
  rows->push_back({"power_mw_pe_exp_kv_cache", 0, 3232.93, power, "Table 3, total", 1e-9, 0});
}

void AddPrefill(std::vector<PaperRow>* rows) {
  const Accelerator hw;
  for (const Masking masking : {Masking::kNone, Masking::kCausal}) {
    const std::string prefix = masking == Masking::kNone ? "gpt3_" : "gpt3_causal_";
    for (const int64_t n : {1024, 2048, 4096, 8192}) {
      const Prefill ours = ProjectPrefill(hw, Gpt3(), n, masking).value();
      const Prefill flash = ProjectPrefill(hw, Gpt3(), n, masking, Of(HwDataflow::kFlash2)).value();
      const int64_t d = Gpt3().head_dim;
      rows->push_back(Row(prefix + "attention_speedup_over_flash2_" + Kilo(n), d,
                          flash.attention_seconds / ours.attention_seconds));
      rows->push_back(Row(prefix + "prefill_speedup_over_flash2_" + Kilo(n), d, flash.seconds / ours.seconds));
      rows->push_back(Row(prefix + "attention_share_" + Kilo(n), d, ours.attention_share));
    }
  }
}

}  // namespace

std::vector<PaperRow> PaperFigures() {
  std::vector<PaperRow> rows;
  for (const int64_t d : {64, 128}) {
    AddRatios({}, d, "", true, &rows);
    AddUtilisations(d, &rows);
  }
  AddTable3(&rows);
  return rows;
}

std::vector<PaperRow> PaperPredictions() {
  std::vector<PaperRow> rows;
  for (const int64_t d : {64, 128}) {
    for (const int64_t kilobytes : {64, 128, 256, 512, 768}) {
      Accelerator hw;
      hw.cache_bytes = kilobytes * 1024;
      AddRatios(hw, d, "cache_" + std::to_string(kilobytes) + "KB_", false, &rows);
    }
    GeometricMean speedup;
    for (const int64_t n : kLengths) {
      Shape shape = PaperShape(n, d);
      shape.right = 0;
      const Projection ours = Must({}, shape, {}), flash = Must({}, shape, Of(HwDataflow::kFlash2));
      rows.push_back(Row("causal_speedup_over_flash2_" + Kilo(n), d, Time(flash) / Time(ours)));
      rows.push_back(Row("causal_io_ratio_flash2_" + Kilo(n), d, flash.bytes.total() / ours.bytes.total()));
      speedup.Add(Time(flash) / Time(ours));
    }
    rows.push_back(Row("causal_speedup_gm_over_flash2", d, speedup.value()));
  }
  AddPrefill(&rows);
  return rows;
}

namespace {

// One change after the other; `order` names overlap, softmax and tile by their letters.
void AddLadder(int64_t d, const std::string& order, std::vector<PaperRow>* rows) {
  const Shape shape = PaperShape(65536, d);
  ProjectOptions options;
  options.tile = TileRule::kFlash2;
  options.overlap = HwOverlap{false, false, false, false};
  const Projection start = Must({}, shape, options);
  std::string item = "ladder";
  for (const char change : order) {
    if (change == 'o')
      options.overlap->intra_inner = options.overlap->inter_inner = options.overlap->inter_outer = true;
    if (change == 's') options.overlap->pipelined_softmax = true;
    if (change == 't') options.tile = TileRule::kPaper;
    item += change == 'o' ? "_overlap" : change == 's' ? "_softmax" : "_tile";
    const Projection p = Must({}, shape, options);
    rows->push_back(Row(item + "_speedup", d, Time(start) / Time(p)));
    rows->push_back(Row(item + "_io_ratio", d, start.bytes.total() / p.bytes.total()));
  }
}

void AddLimits(int64_t d, std::vector<PaperRow>* rows) {
  const Shape shape = PaperShape(65536, d);
  const Projection ours = Must({}, shape, {}), flash = Must({}, shape, Of(HwDataflow::kFlash2));
  ProjectOptions better = Of(HwDataflow::kFlash2);
  better.tile = TileRule::kQuarter;
  const Projection quarter = Must({}, shape, better);
  rows->push_back(Row("flash2_quarter_tile_io_over_attenio", d, quarter.bytes.total() / ours.bytes.total()));
  rows->push_back(Row("flash2_quarter_tile_time_over_attenio", d, Time(quarter) / Time(ours)));
  better.overlap = HwOverlap{};
  rows->push_back(
      Row("flash2_quarter_tile_overlap_softmax_time_over_attenio", d, Time(Must({}, shape, better)) / Time(ours)));
  // Time of FlashAttention-2: array, EXP unit, waits for memory.
  rows->push_back(Row("flash2_pe_share", d, flash.pe_utilisation));
  rows->push_back(Row("flash2_softmax_share", d, flash.exp_occupancy));
  rows->push_back(Row("flash2_stall_share", d, flash.stall_share));
  rows->push_back(Row("flash2_speedup_if_io_were_free", d, 1 / (1 - flash.stall_share)));
  rows->push_back(Row("flash2_speedup_if_only_products", d, 1 / flash.pe_utilisation));
  rows->push_back(Row("attenio_speedup_if_only_products", d, 1 / ours.pe_utilisation));
  rows->push_back(Row("attenio_balanced_tile_speedup", d, Time(ours) / Time(Must({}, shape, [] {
                                                            ProjectOptions o;
                                                            o.tile = TileRule::kBalanced;
                                                            return o;
                                                          }()))));
  rows->push_back(Row("flash2_memory_energy_share", d, flash.energy_mj.memory / flash.energy_mj.total()));
  rows->push_back(Row("attenio_memory_energy_share", d, ours.energy_mj.memory / ours.energy_mj.total()));
  rows->push_back(Row("fusemax_time_over_attenio", d, Time(Must({}, shape, Of(HwDataflow::kFusemax))) / Time(ours)));
  rows->push_back(
      Row("fusemax_io_over_attenio", d, Must({}, shape, Of(HwDataflow::kFusemax)).bytes.total() / ours.bytes.total()));
  for (const int64_t latency : {50, 100, 200}) {
    Accelerator slow;
    slow.memory_latency_cycles = latency;
    const std::string suffix = "_latency_" + std::to_string(latency) + "_slowdown";
    rows->push_back(Row("attenio" + suffix, d, Time(Must(slow, shape, {})) / Time(ours)));
    rows->push_back(Row("flash2" + suffix, d, Time(Must(slow, shape, Of(HwDataflow::kFlash2))) / Time(flash)));
  }
}

}  // namespace

std::vector<PaperRow> PaperReading() {
  std::vector<PaperRow> rows;
  for (const int64_t d : {64, 128}) {
    for (const char* order : {"ost", "tso", "sot"}) AddLadder(d, order, &rows);
    AddLimits(d, &rows);
  }
  return rows;
}

}  // namespace attenio::hw
