// The executor's cache misses as valgrind's cachegrind counts them, a program that is not ours, against the simulation and the
// closed form: `attenio io --outside`.
#include <gtest/gtest.h>

#include <map>

#include "attenio/attention.h"
#include "cli/command_check.h"

namespace attenio::cli {
namespace {

using nlohmann::json;
using testing::CommandResult;
using testing::RunAttenio;

class Outside : public ::testing::TestWithParam<const char*> {};

TEST_P(Outside, CachegrindAgreesWithin10Percent) {
  const CommandResult r = RunAttenio({"io", "--outside", "--n", GetParam(), "--d", "128", "--json"});
  if (r.err.find("needs the program valgrind") != std::string::npos) GTEST_SKIP() << r.err;
  // SIGILL: hypervisors hide instructions (RDTSCP) that Highway's library uses when it is loaded, and valgrind then refuses them.
  if (r.err.find("valgrind ended with status 4,") != std::string::npos) GTEST_SKIP() << r.err;
  if (r.err.find("kernel f32-avx2") != std::string::npos) GTEST_SKIP() << r.err;
  ASSERT_EQ(r.exit_code, 0) << r.err << r.out;
  std::map<std::string, json> cases;
  for (const json& line : Lines(r.out)) cases[line["case"]] = line;
  ASSERT_EQ(cases.size(), 3u);
  for (const auto& [name, line] : cases) EXPECT_NEAR(line["counted_over_simulated"].get<double>(), 1, 0.1) << line;
  EXPECT_NEAR(cases["solved"]["counted_over_predicted"].get<double>(), 1, 0.1);
  EXPECT_GT(cases["flash-attention-2"]["fill_bytes_counted"].get<double>(), 1.5 * cases["solved"]["fill_bytes_counted"].get<double>());
}

INSTANTIATE_TEST_SUITE_P(Lengths, Outside, ::testing::Values("4096", "16384"));

}  // namespace
}  // namespace attenio::cli
