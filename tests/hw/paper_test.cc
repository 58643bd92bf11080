// Validation of the model against published results, in the order of docs/hardware-model.md, with one parameter set.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "hw/paper.h"
#include "hw/hw_shapes.h"
#include "support/files.h"

namespace attenio {
namespace {

using hw::PaperRow;
using Key = std::pair<std::string, int64_t>;

std::map<Key, PaperRow> ByKey(const std::vector<PaperRow>& rows) {
  std::map<Key, PaperRow> map;
  for (const PaperRow& row : rows) {
    EXPECT_TRUE(map.emplace(Key(row.item, row.head_dim), row).second) << row.item << " twice";
  }
  return map;
}

const std::map<Key, PaperRow>& Figures() {
  static const std::map<Key, PaperRow> figures = ByKey(hw::PaperFigures());
  return figures;
}

std::vector<std::vector<std::string>> ReadTable(const std::string& path, char separator) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream file(testing::ReadWhole(path));
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string>& row = rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, separator);) row.push_back(cell);
  }
  return rows;
}

TEST(Paper, EveryStatedToleranceHolds) {
  int checked = 0;
  for (const auto& [key, row] : Figures()) {
    if (row.tolerance == 0 && row.points == 0) continue;
    ASSERT_TRUE(row.published.has_value()) << row.item;
    EXPECT_NEAR(row.model, *row.published, row.tolerance * *row.published + row.points)
        << row.item << " d = " << row.head_dim << ", " << row.where;
    ++checked;
  }
  EXPECT_EQ(checked, 2 * 13 + 10);
}

TEST(Paper, EmbeddedValuesAreThePublishedOnes) {
  const auto path = testing::SharedPath("validation/attenio-paper.tsv");
  if (!path) GTEST_SKIP() << "no shared data";
  std::map<Key, double> published;
  for (const auto& row : ReadTable(*path, '\t')) {
    const bool ratio = row[1] == "64" || row[1] == "128";
    if (ratio) published[Key(row[0], std::stoll(row[1]))] = std::stod(row[2]);
  }
  EXPECT_EQ(published.size(), 28u);
  for (const auto& [key, value] : published) {
    ASSERT_TRUE(Figures().count(key)) << key.first;
    EXPECT_EQ(Figures().at(key).published, value) << key.first;
  }
}

TEST(Paper, PredictionsComeFromTheSameParameters) {
  const auto predictions = ByKey(hw::PaperPredictions());
  for (const int64_t d : {64, 128}) {
    for (const char* item : {"speedup_gm_over_flash2", "speedup_gm_over_flat", "io_gm_ratio_standard"}) {
      EXPECT_EQ(predictions.at({std::string("cache_512KB_") + item, d}).model, Figures().at({item, d}).model);
    }
    // Causal tiles approach the dense ratio from below: the tall tile wastes more on the diagonal.
    const double dense = Figures().at({"speedup_over_flash2_128K", d}).model;
    EXPECT_LT(predictions.at({"causal_speedup_over_flash2_8K", d}).model, dense);
    EXPECT_NEAR(predictions.at({"causal_speedup_over_flash2_128K", d}).model, dense, 0.02 * dense);
  }
}

TEST(Paper, ReadingClosesTheGap) {
  const auto reading = ByKey(hw::PaperReading());
  for (const int64_t d : {64, 128}) {
    // Whatever the order of the changes, FlashAttention-2 has become AttenIO at the end.
    for (const char* order : {"overlap_softmax_tile", "tile_softmax_overlap", "softmax_overlap_tile"}) {
      const std::string item = std::string("ladder_") + order;
      EXPECT_EQ(reading.at({item + "_speedup", d}).model, Figures().at({"speedup_over_flash2_64K", d}).model);
      EXPECT_EQ(reading.at({item + "_io_ratio", d}).model, Figures().at({"io_ratio_flash2_64K", d}).model);
    }
    EXPECT_NEAR(reading.at({"flash2_pe_share", d}).model + reading.at({"flash2_softmax_share", d}).model +
                    reading.at({"flash2_stall_share", d}).model,
                1, 1e-9);
  }
  EXPECT_NEAR(reading.at({"flash2_quarter_tile_io_over_attenio", 64}).model, 1.86, 0.005);
}

// ---------------------------------------------------------------- FuseMax (MICRO 2024), its artifact's results

struct FuseMaxRow {
  std::string name;
  Shape shape;
  double traffic, latency, util_2d, util_1d;
};

std::vector<FuseMaxRow> FuseMaxRows(const std::string& path) {
  std::vector<FuseMaxRow> rows;
  for (const auto& cells : ReadTable(path, ',')) {
    if (cells[0] == "model") continue;
    const int64_t n = std::stoll(cells[1]) << (cells[1].back() == 'M' ? 20 : 10);
    FuseMaxRow row{cells[0] + " " + cells[1], HwShape(n, cells[0] == "BERT" ? 64 : 128, cells[0] == "BERT" ? 12 : 16),
                   std::stod(cells[2]),       std::stod(cells[3]),
                   std::stod(cells[5]),       std::stod(cells[6])};
    row.shape.batch = 64;
    rows.push_back(row);
  }
  return rows;
}

TEST(FuseMax, LatencyTrafficAndUtilisation) {
  const auto path = testing::SharedPath("validation/fusemax-attn-binding.csv");
  if (!path) GTEST_SKIP() << "no shared data";
  const std::vector<FuseMaxRow> rows = FuseMaxRows(*path);
  EXPECT_EQ(rows.size(), 12u);
  for (const FuseMaxRow& row : rows) {
    SCOPED_TRACE(row.name);
    const Projection p = *Project(FusemaxCloud(), row.shape, With(HwDataflow::kFusemax));
    EXPECT_NEAR(p.seconds, row.latency, 0.01 * row.latency);
    EXPECT_EQ(p.bytes.total(), row.traffic);
    EXPECT_NEAR(p.pe_utilisation, row.util_2d, 0.002);
    EXPECT_NEAR(p.exp_occupancy, row.util_1d, 0.002);
  }
}

TEST(FuseMax, FlatLatencyAndSpilledTraffic) {
  const auto path = testing::SharedPath("validation/fusemax-attn-flat.csv");
  if (!path) GTEST_SKIP() << "no shared data";
  const std::vector<FuseMaxRow> rows = FuseMaxRows(*path);
  EXPECT_EQ(rows.size(), 12u);
  for (const FuseMaxRow& row : rows) {
    SCOPED_TRACE(row.name);
    const Projection p = *Project(FusemaxCloud(), row.shape, With(HwDataflow::kFlat));
    EXPECT_NEAR(p.seconds, row.latency, 0.01 * row.latency);
    const bool spills = row.shape.kv_len >= 262144;
    EXPECT_EQ(p.bytes.scores > 0, spills);
    if (spills) { EXPECT_NEAR(p.bytes.total(), row.traffic, 1e-9 * row.traffic); }
  }
}

// ---------------------------------------------------------------- whole model

TEST(Prefill, AttentionShareGrowsAsItsFlops) {
  double last = 0;
  for (const int64_t n : {1024, 2048, 4096, 8192, 32768}) {
    const Prefill p = *ProjectPrefill({}, Gpt3(), n, Masking::kNone);
    // 4 n^2 D of attention to 24 n D^2 of products
    EXPECT_NEAR(p.attention_flop_share, static_cast<double>(n) / static_cast<double>(n + 6 * 12288), 1e-12);
    // Products keep the array full, attention keeps it 0.90 full at d = 128; a short tile at 1K costs a little more.
    const double odds = p.attention_share / (1 - p.attention_share);
    const double flop_odds = p.attention_flop_share / (1 - p.attention_flop_share);
    EXPECT_NEAR(odds / flop_odds, 1.13, 0.07) << n;
    EXPECT_GT(p.attention_share, last);
    last = p.attention_share;
  }
}

TEST(Prefill, GroupedHeadsAndGatedMlp) {
  const Prefill llama = *ProjectPrefill({}, Llama3_8B(), 8192, Masking::kCausal);
  EXPECT_NEAR(llama.seconds, llama.attention_seconds + llama.gemm_seconds, 1e-12);
  // 6.98e9 weights in the layers, 2 flop each and token, at 4.096 TFLOP/s
  EXPECT_NEAR(llama.gemm_seconds, 2 * 8192 * 6.98e9 / 4.096e12, 0.01 * llama.gemm_seconds);
  Transformer odd = Llama3_8B();
  odd.kv_heads = 5;
  EXPECT_FALSE(ProjectPrefill({}, odd, 1024, Masking::kNone).ok());
  EXPECT_FALSE(ProjectPrefill({}, Gpt3(), 0, Masking::kNone).ok());
}

// ---------------------------------------------------------------- energy

TEST(Energy, IsPowerTimesActivity) {
  const Accelerator hw;
  const Projection p = *Project(hw, HwShape(8192, 64, 4));
  EXPECT_NEAR(p.energy_mj.pe, 2583.92 * p.pe_utilisation * p.seconds, 1e-9);
  EXPECT_NEAR(p.energy_mj.cache, 162.52 * p.seconds, 1e-9);
  EXPECT_NEAR(p.energy_mj.memory, p.bytes.total() * 31.2e-9, 1e-9);
  EXPECT_NEAR(p.power_mw.total() * p.seconds, p.energy_mj.total(), 1e-9);
  EXPECT_LT(p.power_mw.pe, hw.pe.power_mw);
}

}  // namespace
}  // namespace attenio
