// attenio attend --method poly and groups: what it computes, what it says, and how it refuses bad input.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cli/command_check.h"
#include "cli/tensor_file.h"

namespace attenio::cli {
namespace {

using nlohmann::json;
using testing::CommandResult;
using testing::RunAttenio;
using testing::TempFolder;

// (1, heads, n, d) rows of length `length` in random directions.
Tensor Sphere(int64_t heads, int64_t n, int64_t d, double length, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Tensor t = MakeTensor(FileType::kF32, {1, heads, n, d});
  for (int64_t row = 0; row < heads * n; ++row) {
    double square = 0;
    float* x = t.data<float>() + row * d;
    for (int64_t c = 0; c < d; ++c) square += std::pow(x[c] = static_cast<float>(normal(random)), 2);
    for (int64_t c = 0; c < d; ++c) x[c] *= static_cast<float>(length / std::sqrt(square));
  }
  return t;
}

class AttendApprox : public ::testing::Test {
 protected:
  // Two query heads on one KV head; scores within 1.
  AttendApprox() {
    WriteTensors({{file_, "q", Sphere(2, 600, 8, std::sqrt(8.0), 1)},
                  {file_, "k", Sphere(1, 3000, 8, 1, 2)},
                  {file_, "v", Sphere(1, 3000, 8, 1, 3)}});
  }
  std::vector<std::string> Call(std::vector<std::string> more) const {
    std::vector<std::string> a{"attend", "--q", file_, "--k", file_, "--v", file_, "--out", folder_ / "o.npy"};
    a.insert(a.end(), more.begin(), more.end());
    return a;
  }
  TempFolder folder_;
  const std::string file_ = folder_ / "qkv.safetensors";
};

TEST_F(AttendApprox, PolySaysWhatItCertifies) {
  const CommandResult exact =
      RunAttenio({"attend", "--q", file_, "--k", file_, "--v", file_, "--out", folder_ / "e.npy"});
  ASSERT_EQ(exact.exit_code, 0) << exact.err;
  const Tensor want = ReadTensor(folder_ / "e.npy", "");
  int degree = 0;
  for (const char* error : {"0.1", "0.01", "0.001"}) {
    const CommandResult r =
        RunAttenio(Call({"--method", "poly", "--max-error", error, "--json", "--verify", "--explain"}));
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const json line = Lines(r.out).at(0);
    EXPECT_EQ(line["method"], "poly");
    EXPECT_EQ(line["path"], "polynomial") << line;
    EXPECT_GT(line["degree"], degree);
    degree = line["degree"];
    EXPECT_EQ(line["exact_rows"], 0.0);
    EXPECT_EQ(line["reason"], "");
    EXPECT_GT(line["certified"], 0.0);
    EXPECT_LE(line["certified"], std::stod(error));
    EXPECT_LE(line["error_over_bound"], 1.0);
    EXPECT_GT(line["rows_verified"], 0);
    EXPECT_NE(line["explain"].get<std::string>().find("165 features"), std::string::npos);
    const Tensor got = ReadTensor(folder_ / "o.npy", "");
    double largest = 0;
    for (int64_t i = 0; i < got.elements(); ++i) largest = std::max(largest, std::abs(got.At(i) - want.At(i)));
    EXPECT_GT(largest, 0);
    EXPECT_LE(largest, 2 * line["certified"].get<double>() + 1e-6);  // the values range over 2 at most
  }
  const CommandResult text = RunAttenio(Call({"--method", "poly", "--max-error", "0.1"}));
  EXPECT_NE(text.out.find("degree 2, 45 features, certified error"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("0.0 % of the rows exact"), std::string::npos) << text.out;
}

TEST_F(AttendApprox, SaysWhyTheExactPathRan) {
  for (const auto& [option, value, reason] : {std::tuple{"--softcap", "3", "softcap is not certifiable"},
                                              {"--window", "5,5", "windows are not certifiable"},
                                              {"--scale", "40", "too few rows can be certified"}}) {
    const CommandResult r = RunAttenio(Call({"--method", "poly", option, value, "--json"}));
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const json line = Lines(r.out).at(0);
    EXPECT_EQ(line["path"], "exact");
    EXPECT_EQ(line["exact_rows"], 1.0);
    EXPECT_NE(line["reason"].get<std::string>().find(reason), std::string::npos) << line;
    EXPECT_NE(
        RunAttenio(Call({"--method", "poly", option, value})).out.find(std::string("the exact path ran: ") + reason),
        std::string::npos);
  }
}

TEST_F(AttendApprox, GroupsStayWithinTheirCertificate) {
  const CommandResult r =
      RunAttenio(Call({"--method", "groups", "--max-error", "0.05", "--json", "--verify", "--threads", "2"}));
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const json line = Lines(r.out).at(0);
  EXPECT_EQ(line["method"], "groups");
  EXPECT_LE(line["error_over_bound"], 1.0);
  if (line["path"] == "groups") {
    EXPECT_GT(line["blocks_skipped"].get<int64_t>() + line["blocks_poly"].get<int64_t>(), 0);
  } else {
    EXPECT_NE(line["reason"], "");
  }
}

TEST_F(AttendApprox, RefusesBadOptions) {
  ExpectRefused(Call({"--method", "cubic"}), "--method");
  ExpectRefused(Call({"--method", "poly", "--max-error", "0"}), "max_error is 0");
  ExpectRefused(Call({"--method", "poly", "--max-error", "-1"}), "max_error is -1");
  ExpectRefused(Call({"--method", "poly", "--max-error", "nan"}), "max_error is nan");
  ExpectRefused(Call({"--method", "groups", "--max-error", "2"}), "max_error is 2");
  ExpectRefused(Call({"--method", "poly", "--max-error", "little"}), "--max-error");
  ExpectRefused(Call({"--method", "poly", "--max-degree", "21"}), "--max-degree");
  ExpectRefused(Call({"--method", "poly", "--schedule", "64x64"}), "--schedule");
  ExpectRefused(Call({"--method", "poly", "--kernel", "none"}), "not one of");
}

}  // namespace
}  // namespace attenio::cli
