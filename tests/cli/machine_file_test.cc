#include "cli/machine_file.h"

#include <gtest/gtest.h>

#include "cli/error.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

TEST(MachineFile, RoundTrips) {
  Machine m = ThisMachine();
  m.clock_hz = 3.5e9;
  m.levels.back().latency_seconds = 1e-7;
  m.kernels = {{.kernel = "k", .tiles = {{1, 1e9, 2e9}, {14, 3e9, 4e9}}, .packing = {{2, 5e9}, {4, 6e9}}}};
  for (const Machine& machine : {m, AttenioMachine()}) {
    EXPECT_EQ(MachineFromJson(ordered_json::parse(MachineToJson(machine).dump(2)), "test"), machine);
  }
}

TEST(MachineFile, RefusesWhatMakesNoSense) {
  const ordered_json good = MachineToJson(AttenioMachine());
  const auto refused = [](const ordered_json& json) {
    try {
      MachineFromJson(json, "file");
      return std::string();
    } catch (const InputError& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(refused(good), "");
  const std::pair<const char*, ordered_json> changes[] = {
      {"/levels/0/bytes", -1}, {"/levels/0/bytes", 1.5},  {"/levels/0/sharers", 0},     {"/levels/0/ways", "8"}, {"/levels/0/level", ""},
      {"/levels/1/level", "cache"}, {"/levels", ordered_json::array()}, {"/levels", 3}, {"/cores", 0}, {"/clock_hz", -1.0},
      {"/fma_flops", nullptr}, {"/name", 5}, {"/unknown", 1}, {"/levels/0/unknown", 1}};
  for (const auto& [at, value] : changes) {
    ordered_json json = good;
    json[ordered_json::json_pointer(at)] = value;
    EXPECT_NE(refused(json), "") << at;
  }
  const ordered_json kernels = ordered_json::parse(
      R"([{"kernel": "k", "tiles": [{"rows": 1, "product_flops": 1e9, "scores_per_second": 1e9},
                                    {"rows": 4, "product_flops": 1e9, "scores_per_second": 1e9}],
           "packing": [{"element_bytes": 4, "bytes_per_second": 1e9}]}])");
  ordered_json measured = good;
  measured["kernels"] = kernels;
  EXPECT_EQ(refused(measured), "");
  const std::pair<const char*, ordered_json> kernel_changes[] = {
      {"/kernels", 1}, {"/kernels/0", 1}, {"/kernels/0/kernel", ""}, {"/kernels/0/tiles", ordered_json::array()},
      {"/kernels/0/tiles/1/rows", 1}, {"/kernels/0/tiles/0/product_flops", 0.0}, {"/kernels/0/tiles/0/scores_per_second", -1.0},
      {"/kernels/0/packing", nullptr}, {"/kernels/0/packing/0/element_bytes", 0}, {"/kernels/0/packing/0/bytes_per_second", 0.0}};
  for (const auto& [at, value] : kernel_changes) {
    ordered_json json = measured;
    json[ordered_json::json_pointer(at)] = value;
    EXPECT_NE(refused(json), "") << at;
  }
  EXPECT_NE(refused(ordered_json::array()), "");
  EXPECT_THROW(LoadMachine("/no/such/file"), InputError);
  EXPECT_EQ(LoadMachine("attenio"), AttenioMachine());
}

}  // namespace
}  // namespace attenio::cli
