// attenio io --paper: the published I/O ratios and what the formulas of this library give for them.
#include "cli/io_paper.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "io/capacity.h"
#include "io/cost.h"

namespace attenio::cli {
namespace {

constexpr int64_t kWords = 512 * 1024 / 2;  // the paper's cache in its 2-byte elements

double MeanRatio(double (*words)(int64_t, int64_t, int64_t), int64_t d) {
  double sum = 0;
  for (int64_t n = 8192; n <= 131072; n *= 2) sum += std::log(words(n, d, kWords) / io::AttenioWords(n, d, kWords));
  return std::exp(sum / 5);
}

double FlatOverStandard(int64_t n, int64_t d) { return io::FlatWords(n, d, kWords) / io::StandardWords(n, d, kWords); }

// The largest tile that the general capacity model holds on the paper's machine with a quantum of 1 x 1.
int64_t LargestTile(int64_t d) {
  const io::Residency residency{false, {d, d, 2, 2}, 0, 0};
  return residency.MaxRows(Dataflow::kQueryResident, io::UsableBytes(AttenioMachine().levels[0]), 1);
}

struct Item {
  const char* item;
  int64_t head_dim;
  double published;
  double model;
};

}  // namespace

int PrintPaper(bool json) {
  const Item items[] = {
      {"io_gm_ratio_flat", 64, 273.7, MeanRatio(io::FlatWords, 64)},
      {"io_gm_ratio_standard", 64, 57.0, MeanRatio(io::StandardWords, 64)},
      {"io_gm_ratio_flash2", 64, 26.8, MeanRatio(io::Flash2Words, 64)},
      {"io_gm_ratio_flat", 128, 148.8, MeanRatio(io::FlatWords, 128)},
      {"io_gm_ratio_standard", 128, 16.4, MeanRatio(io::StandardWords, 128)},
      {"io_gm_ratio_flash2", 128, 7.3, MeanRatio(io::Flash2Words, 128)},
      {"io_flat_over_standard_64K", 64, 10.05, FlatOverStandard(65536, 64)},
      {"io_flat_over_standard_128K", 64, 30.12, FlatOverStandard(131072, 64)},
      {"io_flat_over_standard_64K", 128, 18.96, FlatOverStandard(65536, 128)},
      {"io_flat_over_standard_128K", 128, 56.88, FlatOverStandard(131072, 128)},
  };
  bool ok = true;
  if (!json) fmt::print("{:<28}{:>9}{:>11}{:>11}{:>12}\n", "item", "head dim", "published", "model", "difference");
  for (const Item& i : items) {
    const double difference = i.model / i.published - 1;
    ok = ok && std::abs(difference) <= 0.005;
    if (json) {
      const nlohmann::ordered_json row{{"item", i.item},
                                       {"head_dim", i.head_dim},
                                       {"published", i.published},
                                       {"model", i.model},
                                       {"relative_difference", difference}};
      fmt::print("{}\n", row.dump());
    } else {
      fmt::print("{:<28}{:>9}{:>11.2f}{:>11.2f}{:>11.2f}%\n", i.item, i.head_dim, i.published, i.model, 100 * difference);
    }
  }
  for (const int64_t d : {64, 128}) {
    const int64_t most = LargestTile(d), tiles = (65536 + most - 1) / most, balanced = (65536 + tiles - 1) / tiles;
    if (json) {
      const nlohmann::ordered_json row{{"item", "largest_tile"}, {"head_dim", d}, {"published", nullptr}, {"model", most},
                                       {"relative_difference", nullptr}};
      fmt::print("{}\n", row.dump());
    } else {
      fmt::print("largest query tile at d = {}: {} rows; for n = 65536 {} tiles, balanced {} rows\n", d, most, tiles, balanced);
    }
  }
  if (!json) fmt::print("{}\n", ok ? "every ratio is within 0.5 %" : "a ratio is off by more than 0.5 %");
  return ok ? kExitOk : kExitFailed;
}

}  // namespace attenio::cli
