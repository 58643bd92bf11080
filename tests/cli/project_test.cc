#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "attenio/hw.h"
#include "cli/accelerator_json.h"
#include "cli/error.h"
#include "cli/project.h"
#include "support/files.h"

namespace attenio::cli {
namespace {

using nlohmann::json;

std::vector<json> Lines(const attenio::testing::CommandResult& result) {
  std::vector<json> lines;
  std::istringstream stream(result.out);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(AcceleratorJson, RoundTrip) {
  const attenio::testing::TempFolder folder;
  for (const Accelerator& a : {Accelerator{}, FusemaxCloud(), ScaledAttenio(16e12).value()}) {
    const std::string path = folder / "a.json";
    attenio::testing::WriteWhole(path, ToJson(a));
    EXPECT_EQ(LoadAccelerator(path), a);
  }
}

TEST(AcceleratorJson, BaseAndMistakes) {
  const attenio::testing::TempFolder folder;
  const std::string path = folder / "a.json";
  const auto load = [&path](const std::string& text) {
    attenio::testing::WriteWhole(path, text);
    return LoadAccelerator(path);
  };
  Accelerator expected = FusemaxCloud();
  expected.exp_modules = 512;
  EXPECT_EQ(load(R"({"base": "fusemax-cloud", "exp_modules": 512})"), expected);
  for (const char* bad :
       {"", "[]", "{", R"({"mac_lines": 1.5})", R"({"mac_lines": "64"})", R"({"lines": 64})", R"({"mac_lines": 0})",
        R"({"base": "gpu"})", R"({"clock_hz": -1})", R"({"cache_bytes": 18446744073709551615})"}) {
    EXPECT_THROW(load(bad), InputError) << bad;
  }
  EXPECT_THROW(LoadAccelerator("attenio:"), InputError);
  EXPECT_THROW(LoadAccelerator("attenio:1e3"), InputError);
  EXPECT_THROW(LoadAccelerator(folder / "missing.json"), InputError);
}

TEST(ParseCount, UnitsAndMistakes) {
  EXPECT_EQ(ParseCount("8192", "--n"), 8192);
  EXPECT_EQ(ParseCount("64K", "--n"), 65536);
  EXPECT_EQ(ParseCount("1M", "--n"), 1 << 20);
  for (const char* bad : {"", "K", "8KB", "1e3", "99999999999999999999", "9007199254740993M", "4 "}) {
    EXPECT_THROW(ParseCount(bad, "--n"), InputError) << bad;
  }
}

TEST(ProjectCommand, SweepsAsJson) {
  const auto result = attenio::testing::RunAttenio(
      {"project", "--dataflow", "all", "--n", "8K,1M", "--d", "64,128", "--cache", "256K,512K", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<json> lines = Lines(result);
  ASSERT_EQ(lines.size(), 5u * 2 * 2 * 2);
  for (const char* key : {"accelerator", "dataflow", "n", "d", "heads", "causal", "cache_bytes", "cycles", "time_ms",
                          "bytes", "pe_utilisation", "exp_utilisation", "stall_share", "energy_mj"}) {
    EXPECT_TRUE(lines[0].contains(key)) << key;
  }
  EXPECT_EQ(lines[0]["heads"], 32);
  EXPECT_EQ(lines[0]["cache_bytes"], 262144);
  EXPECT_EQ(lines[0]["bytes"], 2.0 * 32 * 2 * 8192 * 64 * (1 + 9));  // a = 992 rows
}

TEST(ProjectCommand, EveryEventChangesNothingButTheSteps) {
  const auto run = [](std::vector<std::string> extra) {
    extra.insert(extra.begin(), {"project", "--n", "4K", "--heads", "2", "--causal", "--json"});
    json line = Lines(attenio::testing::RunAttenio(extra)).at(0);
    line.erase("steps");
    return line;
  };
  EXPECT_EQ(run({}), run({"--every-event"}));
}

TEST(ProjectCommand, PaperLines) {
  const auto result = attenio::testing::RunAttenio({"project", "--paper", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  int published = 0;
  for (const json& line : Lines(result)) {
    for (const char* key : {"item", "head_dim", "published", "model", "relative_difference"})
      ASSERT_TRUE(line.contains(key)) << key;
    EXPECT_EQ(line["published"].is_null(), line["relative_difference"].is_null());
    published += line["published"].is_null() ? 0 : 1;
  }
  EXPECT_EQ(published, 28 + 10);
}

TEST(ProjectCommand, AblationEndsAtFlash2) {
  const auto result = attenio::testing::RunAttenio({"project", "--ablation", "--n", "16K", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::map<std::string, json> variants;
  for (const json& line : Lines(result)) variants[line["variant"]] = line;
  EXPECT_EQ(variants.size(), 14u);
  EXPECT_EQ(variants.at("tile only")["cycles"], variants.at("flash2, attenio's tile")["cycles"]);
  EXPECT_LT(variants.at("attenio")["cycles"], variants.at("without any overlap")["cycles"]);
}

TEST(ProjectCommand, TimelineAndAcceleratorFiles) {
  const attenio::testing::TempFolder folder;
  const std::string events = folder / "t.csv", hw = folder / "hw.json";
  const auto result = attenio::testing::RunAttenio(
      {"project", "--n", "2K", "--timeline", events, "--window", "0,3K", "--write-accelerator", hw, "--csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(LoadAccelerator(hw), Accelerator{});
  const std::string text = attenio::testing::ReadWhole(events);
  EXPECT_EQ(
      text.rfind("resource,work,first_query,queries,first_key,keys,begin_cycle,end_cycle\nmemory,load-q,0,1985,", 0),
      0u);
}

TEST(ProjectCommand, BadInputIsExitCode2) {
  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{"--macs", "0"},
                                             {"--macs", "33"},
                                             {"--cache", "10"},
                                             {"--bandwidth=-3"},
                                             {"--dataflow", "fast"},
                                             {"--tile", "big"},
                                             {"--n", "0"},
                                             {"--d", "256"},
                                             {"--heads", "3", "--kv-heads", "2"},
                                             {"--schedule", "cache:unfused:4x4"},
                                             {"--model", "bert"},
                                             {"--json", "--csv"},
                                             {"--window", "5", "--timeline", "/dev/null"}}) {
    std::vector<std::string> arguments = {"project"};
    arguments.insert(arguments.end(), bad.begin(), bad.end());
    const auto result = attenio::testing::RunAttenio(arguments);
    EXPECT_EQ(result.exit_code, 2) << bad[0];
    EXPECT_EQ(result.err.rfind("attenio: ", 0), 0u) << result.err;
  }
}

}  // namespace
}  // namespace attenio::cli
