// attenio io and attenio calibrate as commands.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "cli/command_check.h"
#include "cli/machine_file.h"

namespace attenio::cli {
namespace {

using nlohmann::json;
using testing::CommandResult;
using testing::RunAttenio;
using testing::TempFolder;

TEST(Io, TablesAndJson) {
  const CommandResult text = RunAttenio({"io", "--n", "512", "--d", "64"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("every dataflow at"), std::string::npos);
  const CommandResult r =
      RunAttenio({"io", "--n", "512", "--d", "64", "--heads", "4", "--kv-heads", "2", "--causal", "--json"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  std::set<std::string> dataflows;
  for (const json& line : Lines(r.out)) {
    for (const char* key : {"level", "dataflow", "schedule", "fast_bytes", "bytes_predicted", "bytes_simulated",
                            "bytes_bound", "bound_kind", "solve_us"}) {
      EXPECT_TRUE(line.contains(key)) << key;
    }
    EXPECT_GE(line["bytes_predicted"].get<double>(), 0.99 * line["bytes_bound"].get<double>()) << line;
    dataflows.insert(line["dataflow"].get<std::string>());
  }
  for (const char* name :
       {"query-resident", "key-resident", "row-buffered", "unfused", "flash-attention-1", "flash-attention-2"}) {
    EXPECT_TRUE(dataflows.count(name)) << name;
  }
}

TEST(Io, PolynomialBesideExact) {
  const CommandResult r =
      RunAttenio({"io", "--n", "4096", "--d", "32", "--method", "poly", "--degree", "1,2", "--json"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const std::vector<json> lines = Lines(r.out);
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ(lines[0]["dataflow"], "query-resident");
  // The state of degree 2 at d = 32 (74 KB) fits any L2: everything moves once, less than exact attention moves.
  double resident = 0;
  for (const json& line : lines) {
    if (line["dataflow"] == "poly R degree 2") resident = line["bytes_predicted"].get<double>();
    if (!line["bytes_simulated"].is_null()) {
      EXPECT_EQ(line["bytes_simulated"], line["bytes_predicted"]) << line;
    }
    EXPECT_GE(line["bytes_predicted"].get<double>(), line["bytes_bound"].get<double>()) << line;
  }
  EXPECT_EQ(resident, 4.0 * 4 * 4096 * 32);
  EXPECT_LT(resident, lines[0]["bytes_predicted"].get<double>());
  const CommandResult text = RunAttenio({"io", "--n", "4096", "--d", "32", "--method", "poly"});
  EXPECT_NE(text.out.find("degree 3: 6545 features"), std::string::npos) << text.out;
}

TEST(Io, PublishedRatios) {
  const CommandResult r = RunAttenio({"io", "--paper"});
  EXPECT_EQ(r.exit_code, 0) << r.out;
  EXPECT_NE(r.out.find("every ratio is within 0.5 %"), std::string::npos);
  EXPECT_NE(r.out.find("1985 rows"), std::string::npos);
  EXPECT_NE(r.out.find("1007 rows"), std::string::npos);
}

TEST(Io, LargestProblemsAreNotSimulated) {
  const std::string most = std::to_string(int64_t{1} << 40);
  for (const char* method : {"exact", "poly"}) {
    for (const char* d : {"64", "4096"}) {
      const CommandResult r = RunAttenio({"io", "--n", most, "--d", d, "--method", method, "--causal", "--json"});
      EXPECT_EQ(r.exit_code, 0) << r.err;
    }
  }
}

TEST(Io, Refusals) {
  ExpectRefused({"io", "--n", "0"}, "--n");
  ExpectRefused({"io", "--d", "many"}, "--d");
  ExpectRefused({"io", "--heads", "3", "--kv-heads", "2"}, "not a multiple");
  ExpectRefused({"io", "--dtype", "f8"}, "--dtype");
  ExpectRefused({"io", "--kernel", "none"}, "not one of");
  ExpectRefused({"io", "--schedule", "12"}, "schedule");
  ExpectRefused({"io", "--threads", "0"}, "--threads");
  ExpectRefused({"io", "--method", "taylor"}, "--method");
  ExpectRefused({"io", "--method", "poly", "--degree", "99"}, "--degree");
  ExpectRefused({"io", "--n", "64", "--dataflow", "sideways"}, "--dataflow");
  ExpectRefused({"io", "--machine", "/no/such/file"}, "/no/such/file");
  ExpectRefused({"io", "--picture", "traffic.jpg"}, ".png or .svg");
  ExpectRefused({"io", "--outside", "--heads", "2"}, "one head");
}

TEST(Calibrate, WritesAMachineThatEverythingReads) {
  const TempFolder folder;
  const std::string path = folder / "here.json";
  const CommandResult r = RunAttenio({"calibrate", "--quick", "--out", path, "--json"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const Machine m = LoadMachine(path);
  EXPECT_EQ(m, MachineFromJson(nlohmann::ordered_json::parse(r.out), "stdout"));
  EXPECT_GT(m.fma_flops, 0);
  EXPECT_GT(m.exp_per_second, 0);
  for (const MemoryLevel& level : m.levels) {
    if (level.name == "reg") continue;
    EXPECT_GT(level.bytes_per_second, 0) << level.name;
    EXPECT_GT(level.shared_bytes_per_second, 0) << level.name;
    EXPECT_GT(level.latency_seconds, 0) << level.name;
  }
  const CommandResult info = RunAttenio({"info", "--machine", path});
  EXPECT_EQ(info.exit_code, 0) << info.err;
  EXPECT_NE(info.out.find("GB/s alone"), std::string::npos) << info.out;
  const CommandResult io = RunAttenio({"io", "--machine", path, "--n", "256", "--d", "64"});
  EXPECT_EQ(io.exit_code, 0) << io.err;
  ExpectRefused({"calibrate", "--out", folder / "absent/here.json"}, "cannot be written");
  ExpectRefused({"calibrate", "--seconds"}, "--seconds");
}

}  // namespace
}  // namespace attenio::cli
