// attenio accuracy: what it measures, what it writes, and how it refuses bad input.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "cli/accuracy_data.h"
#include "cli/accuracy_error.h"
#include "cli/command_check.h"
#include "cli/tensor_file.h"

namespace attenio::cli {
namespace {

using nlohmann::json;
using testing::CommandResult;
using testing::RunAttenio;
using testing::TempFolder;

std::vector<json> Measure(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"accuracy", "--json", "--repeats", "1", "--threads", "2"});
  const CommandResult r = RunAttenio(arguments);
  EXPECT_EQ(r.exit_code, 0) << r.err;
  return Lines(r.out);
}

TEST(Accuracy, EveryMethodOnEveryDistribution) {
  const std::vector<json> lines =
      Measure({"--n", "300", "--d", "8", "--methods", "exact,poly-always,groups-always,taylor,performer,nystrom,window",
               "--features", "64"});
  EXPECT_EQ(lines.size(), DistributionNames().size() * 9);  // two max-errors for poly and groups
  for (const json& line : lines) {
    const std::string method = line["method"];
    if (method == "window") {
      EXPECT_NE(line["status"], "ok");
      EXPECT_FALSE(line.contains("time_ms"));
      continue;
    }
    EXPECT_EQ(line["status"], "ok") << line;
    EXPECT_GT(line["time_ms"], 0.0);
    EXPECT_GT(line["speedup_over_exact"], 0.0);
    EXPECT_LE(line["error_p50"], line["error_p90"]);
    EXPECT_LE(line["error_p90"], line["error_p99"]);
    EXPECT_LE(line["error_p99"], line["error_max"]);
    EXPECT_LE(line["error_rmse"], line["error_max"]);
    EXPECT_EQ(line["rows_sampled"], 300);
    EXPECT_EQ(line["bound"].is_null(), !TakesBound(line["distribution"]));
    if (method == "exact") {
      EXPECT_LT(line["error_max"], 1e-5) << line;
      EXPECT_LT(line["kl"], 1e-9) << line;
      EXPECT_GT(line["bytes_predicted"], 0.0);
    }
    if (line.contains("certified") && line["certified"].is_number()) {
      EXPECT_LE(line["error_max"].get<double>(), line["certified"].get<double>() + 1e-6) << line;
      EXPECT_LE(line["certified"].get<double>(), line["max_error"].get<double>() * 1.0001);
      EXPECT_GE(line["certified_over_error"], 1.0);
    }
  }
}

TEST(Accuracy, PolySaysDegreeRegimeBytesAndDivergence) {
  double error = 1, divergence = 1;
  for (const char* allowed : {"0.1", "0.01", "0.001"}) {
    const json line = Measure({"--dist", "bounded", "--n", "1000", "--d", "8", "--methods", "poly-always",
                               "--max-error", allowed, "--simulate"})
                          .at(0);
    EXPECT_EQ(line["regime"], "R");
    EXPECT_EQ(line["path"], "polynomial");
    EXPECT_EQ(line["bytes_predicted"], 4 * 1000 * 8 * 4);  // Q, K, V and O once
    EXPECT_GT(line["bytes_simulated"], 0.0);
    EXPECT_LT(line["error_max"], error);
    EXPECT_LT(line["kl"], divergence);
    error = line["error_max"];
    divergence = line["kl"];
  }
  const json taylor =
      Measure({"--dist", "bounded", "--n", "200", "--d", "8", "--methods", "taylor", "--degree", "1,4"}).at(1);
  EXPECT_EQ(taylor["degree"], 4);
}

TEST(Accuracy, WindowIsExactWhenItIsWide) {
  const json line =
      Measure({"--dist", "llm", "--n", "200", "--d", "8", "--methods", "window", "--features", "200", "--causal"})
          .at(0);
  EXPECT_EQ(line["status"], "ok");
  EXPECT_LT(line["error_max"], 1e-5);
  EXPECT_LT(line["kl"], 1e-9);
}

TEST(Accuracy, HalfPrecisionShowsItsRounding) {
  const std::vector<json> f32 = Measure({"--dist", "normal", "--n", "200", "--d", "16", "--methods", "exact"});
  const std::vector<json> bf16 =
      Measure({"--dist", "normal", "--n", "200", "--d", "16", "--methods", "exact,taylor", "--dtype", "bf16"});
  EXPECT_EQ(bf16[0]["dtype"], "bf16");
  EXPECT_GE(bf16[0]["error_max"], f32[0]["error_max"]);
  EXPECT_EQ(bf16[1]["status"], "comparators take f32 only");
}

TEST(Accuracy, OwnFiles) {
  const TempFolder folder;
  const std::vector<json> lines =
      Measure({"--input", testing::DataPath("tinylm.safetensors"), "--methods", "exact,poly,groups", "--causal"});
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0]["distribution"], "input");
  EXPECT_EQ(lines[0]["d"], 64);
  for (const json& line : lines) EXPECT_EQ(line["status"], "ok") << line;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i]["path"] == "exact") {
      EXPECT_NE(lines[i]["reason"], "") << lines[i];
    }
  }
  DataOptions data;
  data.n = 50;
  data.d = 8;
  const Problem p = Generate(data);
  WriteTensors({{folder / "q.npy", "", p.q}, {folder / "k.npy", "", p.k}, {folder / "v.npy", "", p.v}});
  const std::string files = (folder / "q.npy") + "," + (folder / "k.npy") + "," + (folder / "v.npy");
  const json own = Measure({"--input", files, "--methods", "exact"}).at(0);
  const json generated = Measure({"--dist", "normal", "--n", "50", "--d", "8", "--methods", "exact"}).at(0);
  EXPECT_EQ(own["error_max"], generated["error_max"]);
  ExpectRefused({"accuracy", "--input", (folder / "q.npy") + "," + (folder / "k.npy")}, "--input");
  ExpectRefused({"accuracy", "--input", folder / "absent.safetensors"}, "absent.safetensors");
}

TEST(Accuracy, CsvKeepsEveryLine) {
  const TempFolder folder;
  const std::string path = folder / "a.csv";
  const std::vector<json> lines =
      Measure({"--dist", "normal,bounded", "--n", "64,100", "--d", "4", "--methods", "exact,window", "--out", path});
  ASSERT_EQ(lines.size(), 8u);
  std::istringstream csv(testing::ReadWhole(path));
  std::string line;
  size_t rows = 0, commas = 0;
  while (std::getline(csv, line)) {
    bool quoted = false;
    size_t here = 0;
    for (char c : line) {
      quoted ^= c == '"';
      here += c == ',' && !quoted ? 1 : 0;
    }
    if (rows == 0) commas = here;
    EXPECT_EQ(here, commas) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 9u);
  EXPECT_GT(commas, 20u);
  ExpectRefused({"accuracy", "--out", folder / "no/such/folder.csv"}, "--out");
}

TEST(Accuracy, RefusesBadOptions) {
  ExpectRefused({"accuracy", "--dist", "cauchy"}, "--dist cauchy");
  ExpectRefused({"accuracy", "--methods", "exact,magic"}, "--methods magic");
  ExpectRefused({"accuracy", "--max-error", "0"}, "--max-error");
  ExpectRefused({"accuracy", "--max-error", "nan"}, "--max-error");
  ExpectRefused({"accuracy", "--max-error", "0.1,2"}, "--max-error 2");
  ExpectRefused({"accuracy", "--bound", "-1"}, "--bound");
  ExpectRefused({"accuracy", "--bound", "inf"}, "--bound");
  ExpectRefused({"accuracy", "--between", "-3"}, "--between");
  ExpectRefused({"accuracy", "--n", "0"}, "--n");
  ExpectRefused({"accuracy", "--n", "99999999999"}, "--n");
  ExpectRefused({"accuracy", "--d", "many"}, "--d");
  ExpectRefused({"accuracy", "--degree", "21"}, "--degree");
  ExpectRefused({"accuracy", "--features", "0"}, "--features");
  ExpectRefused({"accuracy", "--dtype", "f8"}, "--dtype f8");
  ExpectRefused({"accuracy", "--heads", "3", "--kv-heads", "2"}, "--heads 3");
  ExpectRefused({"accuracy", "--kernel", "none"}, "not one of");
  ExpectRefused({"accuracy", "--repeats", "0"}, "--repeats");
}

TEST(Accuracy, ScalingFindsSlopesAndTheCrossover) {
  const std::vector<json> lines = Measure({"--scaling", "--longest", "8192", "--d", "24", "--max-error", "0.025"});
  std::map<std::string, double> items;
  for (const json& line : lines) {
    if (line.contains("item")) {
      items[line["item"]] = line["value"];
    } else {
      EXPECT_GT(line["poly_ms"], 0.0);
      EXPECT_GT(line["exact_ms"], 0.0);
    }
  }
  EXPECT_TRUE(
      items.contains("slope of the polynomial path"));  // 325 features: from n = 2600 on; times are not a test's business
  EXPECT_GT(items["crossover, predicted n"], 0);
  ExpectRefused({"accuracy", "--scaling", "--bound", "500", "--longest", "256"}, "--scaling");
}

TEST(AccuracyData, IsWhatItsNameSays) {
  DataOptions o;
  o.n = 4000;
  o.d = 16;
  for (const std::string& name : DistributionNames()) {
    o.distribution = name;
    const Problem a = Generate(o), b = Generate(o);
    EXPECT_EQ(a.k.bytes, b.k.bytes) << name;
  }
  o.distribution = "bounded";
  o.bound = 2;
  const Problem p = Generate(o);
  double q = 0, k = 0;
  for (int64_t c = 0; c < 16; ++c) {
    q += p.q.At(c) * p.q.At(c);
    k += p.k.At(c) * p.k.At(c);
  }
  EXPECT_NEAR(std::sqrt(q * k) / 4, 2, 1e-5);  // |scale q| |k|
  o.distribution = "outlier";
  const Problem outlier = Generate(o);
  int64_t far = 0;
  for (int64_t i = 0; i < outlier.k.elements(); ++i) far += std::abs(outlier.k.At(i)) > 6 ? 1 : 0;
  EXPECT_GT(far, 10);  // 64000 elements, 64 outliers of deviation 10
  EXPECT_LT(far, 64);
  o.distribution = "llm";
  const Problem llm = Generate(o);
  std::vector<double> weight(2);
  for (int64_t j = 0; j < 2; ++j) {
    for (int64_t c = 0; c < 16; ++c)
      weight[static_cast<size_t>(j)] += llm.q.At(16 * 40 + c) * llm.k.At(16 * (j == 0 ? 0 : 1000) + c);
  }
  EXPECT_GT(weight[0], weight[1]);  // the sink
}

TEST(AccuracyErrors, KnownValues) {
  DataOptions o;
  o.n = 40;
  o.d = 4;
  Problem p = Generate(o);
  const Reference reference = ComputeReference(&p, SerialParallel());
  ASSERT_EQ(reference.rows.size(), 40u);
  for (size_t i = 0; i < 40; ++i) {
    for (int64_t c = 0; c < 4; ++c)
      p.out.data<float>()[static_cast<int64_t>(i) * 4 + c] =
          static_cast<float>(reference.want[i].out[static_cast<size_t>(c)]);
  }
  EXPECT_LT(Compare(p, reference).max, 1e-7);
  p.out.data<float>()[5] += static_cast<float>(0.25 * reference.ranges[1]);
  Errors e = Compare(p, reference);
  EXPECT_NEAR(e.max, 0.25, 1e-6);
  EXPECT_NEAR(e.rmse, 0.25 / std::sqrt(160.0), 1e-6);
  EXPECT_LT(e.p90, 1e-6);
  p.out.data<float>()[7] = NAN;
  EXPECT_EQ(Compare(p, reference).not_finite, 1);
  // Weights all equal: the divergence is ln n minus the entropy.
  const std::optional<double> kl = WeightDivergence(p, [](Problem* unit) {
    for (int64_t i = 0; i < unit->out.elements(); ++i) unit->out.data<float>()[i] = 1.0f / 40;
    return true;
  });
  ASSERT_TRUE(kl.has_value());
  double expected = 0;
  for (int64_t i = 8; i < 40; ++i) {
    std::vector<double> w(40);
    double sum = 0;
    for (int64_t j = 0; j < 40; ++j) {
      double score = 0;
      for (int64_t c = 0; c < 4; ++c) score += p.q.At(i * 4 + c) * p.k.At(j * 4 + c) / 2;
      sum += w[static_cast<size_t>(j)] = std::exp(score);
    }
    for (double x : w) expected += x / sum * std::log(x / sum * 40);
  }
  EXPECT_NEAR(*kl, expected / 32, 1e-6);
  EXPECT_FALSE(WeightDivergence(p, [](Problem*) { return false; }).has_value());
  EXPECT_FALSE(WeightDivergence(p,
                                [](Problem* unit) {  // a weight of 0
                                  for (int64_t i = 0; i < unit->out.elements(); ++i)
                                    unit->out.data<float>()[i] = i % 2 == 0 ? 1 : 0;
                                  return true;
                                })
                   .has_value());
}

}  // namespace
}  // namespace attenio::cli
