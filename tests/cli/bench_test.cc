// attenio bench beyond plain timings: predictions, ablation, replay, modifiers, and being interrupted.
#include <gtest/gtest.h>

#include <csignal>
#include <cmath>
#include <set>

#include "attenio/attention.h"
#include "cli/bench_input.h"
#include "cli/bench_replay.h"
#include "cli/command_check.h"
#include "cli/machine_file.h"

namespace attenio::cli {
namespace {

using nlohmann::json;
using testing::CommandResult;
using testing::RunAttenio;
using testing::TempFolder;

class BenchCommand : public ::testing::Test {
 protected:
  BenchCommand() {
    testing::WriteWhole(shapes_,
                        "heading\nsmall-f32 1 4 2 70 150 24 40 0 f32\nsmall-bf16 1 4 2 70 150 24 40 1 bf16\n"
                        "decode-f16 2 4 1 1 300 32 32 0 f16\n");
  }
  CommandResult Run(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"bench", "--shapes", shapes_, "--seconds", "0", "--impl", "exact", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunAttenio(arguments);
  }
  TempFolder folder_;
  std::string shapes_ = folder_ / "shapes.tsv";
};

// This machine with rates that are `factor` times round numbers.
Machine MachineWithRates(double factor) {
  Machine m = ThisMachine();
  m.fma_flops = 100e9 * factor;
  m.exp_per_second = 10e9 * factor;
  for (MemoryLevel& l : m.levels) l.bytes_per_second = l.shared_bytes_per_second = 50e9 * factor;
  for (const KernelInfo& kernel : Kernels()) {
    if (!kernel.available) continue;
    m.kernels.push_back({.kernel = kernel.name,
                         .tiles = {{kernel.quantum.rows, 100e9 * factor, 5e9 * factor}},
                         .packing = {{2, 20e9 * factor}, {4, 30e9 * factor}}});
  }
  return m;
}

// The prediction is a function of the machine file and the plan: the same in every run, half of it on a machine twice as fast.
TEST_F(BenchCommand, ProjectsFromTheMachineFileAlone) {
  std::vector<std::vector<json>> runs;
  for (const double factor : {1.0, 1.0, 2.0}) {
    const std::string file = folder_ / "machine.json";
    testing::WriteWhole(file, MachineToJson(MachineWithRates(factor)).dump());
    const CommandResult r = Run({"--project", "--machine", file, "--threads", "2"});
    ASSERT_EQ(r.exit_code, 0) << r.err;
    runs.push_back(Lines(r.out));
    ASSERT_EQ(runs.back().size(), 3u);
    EXPECT_NE(r.err.find("of 3 cases within 20 %"), std::string::npos) << r.err;
  }
  for (size_t i = 0; i < 3; ++i) {
    const double once = runs[0][i]["predicted_ms"];
    EXPECT_GT(once, 0);
    EXPECT_EQ(runs[1][i]["predicted_ms"].get<double>(), once);
    EXPECT_NEAR(runs[2][i]["predicted_ms"].get<double>(), once / 2, 1e-9 * once);
    EXPECT_NEAR(runs[0][i]["predicted_over_measured"].get<double>(), once / runs[0][i]["median_ms"].get<double>(),
                1e-9);
  }
  const std::string bare = folder_ / "bare.json";
  testing::WriteWhole(bare, MachineToJson(ThisMachine()).dump());
  ExpectRefused({"bench", "--project", "--machine", bare}, "calibrate");
}

TEST_F(BenchCommand, AblationTurnsOneThingOffAtATime) {
  const CommandResult r = Run({"--ablation", "--cases", "small-f32"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  std::set<std::string> variants, schedules;
  for (const json& line : Lines(r.out)) {
    EXPECT_EQ(line["status"], "ok") << line;
    EXPECT_LE(line["error_over_bound"].get<double>(), 1.0);
    EXPECT_GT(line["time_ratio"].get<double>(), 0);
    variants.insert(line["variant"].get<std::string>());
    if (line["variant"] == "tile 256x512") {
      EXPECT_NE(line["schedule"].get<std::string>().find("256x512"), std::string::npos);
    }
  }
  for (const char* name :
       {"as it is", "no prefetch", "no packing ahead", "no overlap", "flash2's tile", "tile 256x512"}) {
    EXPECT_EQ(variants.count(name), 1u) << name;
  }
  for (const KernelInfo& kernel : Kernels()) {
    if (kernel.available && kernel.name == "f32-avx2") {
      EXPECT_EQ(variants.count("f32-avx2"), 1u);
    }
  }
}

TEST_F(BenchCommand, ModifiersAreVerifiedAgainstTheOracle) {
  const std::vector<std::vector<std::string>> all = {{"--mask", "bool"},
                                                     {"--mask", "f32"},
                                                     {"--mask", "bf16"},
                                                     {"--softcap", "5"},
                                                     {"--window", "20,3"},
                                                     {"--sink", "--alibi"},
                                                     {"--dist", "normal"},
                                                     {"--dist", "outlier"},
                                                     {"--dist", "llm"},
                                                     {"--dist", "clustered"},
                                                     {"--dist", "bounded", "--bound", "2"}};
  std::set<std::string> signatures;
  for (const std::vector<std::string>& options : all) {
    const CommandResult r = Run(options);
    ASSERT_EQ(r.exit_code, 0) << options[0] << r.err << r.out;
    const std::vector<json> lines = Lines(r.out);
    ASSERT_EQ(lines.size(), 3u);
    for (const json& line : lines) EXPECT_EQ(line["status"], "ok") << options[0] << line;
    EXPECT_TRUE(signatures.insert(lines[0]["sig"].dump()).second) << options.back() << " changes nothing";
  }
  const CommandResult naive = RunAttenio({"bench", "--shapes", shapes_, "--impl", "naive", "--mask", "bool", "--json"});
  EXPECT_EQ(Lines(naive.out).at(0)["status"], "naive takes no mask, sink or ALiBi");
}

TEST_F(BenchCommand, BoundedScoresStayBelowTheirBound) {
  const BenchCase c{"x", 1, 2, 1, 30, 50, 24, 8, false, DType::kF32};
  const Problem p = MakeProblem(c, BenchInput{.dist = "bounded", .bound = 3});
  double largest = 0;
  for (int64_t row = 0; row < 60; ++row) {
    for (int64_t key = 0; key < 50; ++key) {
      double s = 0;
      for (int64_t i = 0; i < 24; ++i) s += p.q.At(row * 24 + i) * p.k.At(key * 24 + i);
      largest = std::max(largest, std::abs(s) / std::sqrt(24.0));
    }
  }
  EXPECT_LE(largest, 3.0 * (1 + 1e-5));
  EXPECT_GT(largest, 1.0);  // 3000 pairs in 24 dimensions: some are nearly parallel
}

TEST_F(BenchCommand, EveryLineHasThePeaksOfItsRounds) {
  const CommandResult r = Run({});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  for (const json& line : Lines(r.out)) {
    for (const char* key : {"peak_fma", "peak_tensor", "peak_tensor_l1", "peak_exp", "read_gbps",
                            "product_cycles_before", "product_cycles_after", "quiet", "peak_fraction"}) {
      EXPECT_TRUE(line.contains(key)) << key;
    }
    EXPECT_EQ(line.contains("note"), line["peak_fraction"].get<double>() > 1);
    EXPECT_TRUE(line["quiet"].is_boolean());
  }
}

TEST(Peaks, QuietMeansWithinThreePercentOfWhatAProcessorDoes) {
  for (const double quiet : {16.0, 16.5, 0.5, 0.51, 1.0, 1.03}) EXPECT_TRUE(QuietProducts(quiet)) << quiet;
  for (const double loud : {0.0, 0.6, 1.04, 16.6, 20.0, 0.3}) EXPECT_FALSE(QuietProducts(loud)) << loud;
}

TEST(Replay, HandsTasksToTheWorkerThatIsFreeFirst) {
  EXPECT_EQ(Makespan({{1, 2, 3, 4}}, 1), 10);
  EXPECT_EQ(Makespan({{1, 2, 3, 4}}, 2), 6);  // 1 3 | 2 4
  EXPECT_EQ(Makespan({{4, 3, 2, 1}}, 2), 5);  // 4 1 | 3 2
  EXPECT_EQ(Makespan({{1, 1}, {5}}, 2), 6);   // phases wait for each other
  EXPECT_EQ(Makespan({{}, {2}}, 8), 2);
}

TEST_F(BenchCommand, ReplaysTheTasksOfAPlan) {
  const CommandResult r = Run({"--replay-threads", "1,2,64"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const std::vector<json> lines = Lines(r.out);
  ASSERT_EQ(lines.size(), 9u);
  for (const json& line : lines) {
    const double ratio = line["makespan_over_ideal"];
    EXPECT_GE(ratio, 1 - 1e-9);
    if (line["replay_threads"] == 1) {
      EXPECT_NEAR(ratio, 1, 1e-9);
    }
    EXPECT_GT(line["tasks"].get<int>(), 0);
  }
  ExpectRefused({"bench", "--replay-threads", "0"}, "--replay-threads");
  ExpectRefused({"bench", "--replay-threads", "2,x"}, "--replay-threads");
}

// Enough cases to last until the signal comes; whatever was measured is there, line by line, and nothing else.
TEST_F(BenchCommand, AnInterruptKeepsWhatWasMeasured) {
  std::string table = "heading\n";
  for (int i = 0; i < 500; ++i) table += "case" + std::to_string(i) + " 1 2 2 64 64 32 32 0 f32\n";
  testing::WriteWhole(shapes_, table);
  for (const int signal : {SIGINT, SIGTERM}) {
    const CommandResult r = testing::InterruptAttenio(
        {"bench", "--shapes", shapes_, "--seconds", "0", "--threads", "1", "--impl", "exact", "--json"}, 2, signal);
    EXPECT_EQ(r.exit_code, 128 + signal) << r.err;
    EXPECT_NE(r.err.find("interrupted"), std::string::npos) << r.err;
    ASSERT_FALSE(r.out.empty());
    EXPECT_EQ(r.out.back(), '\n');
    const std::vector<json> lines = Lines(r.out);
    EXPECT_GE(lines.size(), 2u);
    EXPECT_LT(lines.size(), 500u);
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lines[i]["case"], "case" + std::to_string(i));
      EXPECT_GE(lines[i]["runs"].get<int>(), 1);
    }
  }
}

// Not even an end without warning takes what was printed.
TEST_F(BenchCommand, EveryCaseIsFlushed) {
  std::string table = "heading\n";
  for (int i = 0; i < 500; ++i) table += "case" + std::to_string(i) + " 1 2 2 64 64 32 32 0 f32\n";
  testing::WriteWhole(shapes_, table);
  const CommandResult r = testing::InterruptAttenio(
      {"bench", "--shapes", shapes_, "--seconds", "0", "--threads", "1", "--impl", "exact", "--json"}, 1, SIGKILL);
  EXPECT_EQ(r.exit_code, -1);
  const std::vector<json> lines = Lines(r.out.substr(0, r.out.rfind('\n') + 1));
  EXPECT_GE(lines.size(), 1u);
}

TEST(Usage, NumbersThatAreNone) {
  for (const char* bad : {"nan", "inf", "-1", "1e400", "", "x"}) {
    ExpectRefused({"bench", "--seconds", bad}, "--seconds");
    ExpectRefused({"bench", "--softcap", bad}, "--softcap");
    ExpectRefused({"bench", "--dist", "bounded", "--bound", bad}, "--bound");
    ExpectRefused({"attend", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--softcap", bad},
                  "--softcap");
    ExpectRefused({"project", "--bandwidth", bad}, "--bandwidth");
  }
  for (const char* option : {"--n", "--d", "--macs", "--cache"}) {
    for (const char* bad : {"0", "-5", "nan", "1e5", ""}) ExpectRefused({"project", option, bad}, option);
  }
  for (const char* bad : {"nan", "-inf", "1e39", ""}) {
    ExpectRefused({"attend", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--scale", bad},
                  "--scale");
  }
  ExpectRefused({"bench", "--mask", "u8"}, "--mask");
  ExpectRefused({"bench", "--dist", "cauchy"}, "--dist");
  ExpectRefused({"bench", "--bound", "2"}, "--bound");
  ExpectRefused({"bench", "--impl", "onednn-graph"}, "onednn-graph");
  ExpectRefused({"nonsense"}, "nonsense");
}

}  // namespace
}  // namespace attenio::cli
