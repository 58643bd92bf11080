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
  EXPECT_NE(refused(ordered_json::array()), "");
  EXPECT_THROW(LoadMachine("/no/such/file"), InputError);
  EXPECT_EQ(LoadMachine("attenio"), AttenioMachine());
}

}  // namespace
}  // namespace attenio::cli
