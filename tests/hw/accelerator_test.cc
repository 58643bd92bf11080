#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "hw/hw_shapes.h"

namespace attenio {
namespace {

TEST(Accelerator, DefaultsAreThePapersTable2) {
  const Accelerator a;
  EXPECT_EQ(a.macs(), 64 * 32);
  EXPECT_EQ(a.exp_modules, 128);
  EXPECT_EQ(a.kv_buffer_bytes, 256);
  EXPECT_EQ(a.cache_words(), 262144);
  EXPECT_EQ(a.bytes_per_cycle(), 128);
  EXPECT_EQ(a.clock_hz, 1e9);
  EXPECT_EQ(a.peak_flops(), 4.096e12);
  EXPECT_TRUE(Validate(a).ok());
}

TEST(Accelerator, MatchesTheMachineOfTheAnalysis) {
  const Accelerator a;
  const Machine m = AttenioMachine();
  EXPECT_EQ(m.levels.front().bytes, a.cache_bytes);
  EXPECT_EQ(m.levels.back().bytes_per_second, a.bytes_per_cycle() * a.clock_hz);
  EXPECT_EQ(m.tensor_flops, a.peak_flops());
  EXPECT_EQ(m.exp_per_second, static_cast<double>(a.exp_modules) * a.clock_hz);
}

TEST(Accelerator, PresetsAreValid) {
  const Accelerator cloud = FusemaxCloud();
  EXPECT_TRUE(Validate(cloud).ok());
  EXPECT_EQ(cloud.macs(), 65536);
  EXPECT_EQ(cloud.cache_bytes, 16 << 20);
}

TEST(Accelerator, ScalesInProportion) {
  const Result<Accelerator> quad = ScaledAttenio(4 * 4.096e12);
  ASSERT_TRUE(quad.ok());
  EXPECT_EQ(quad->peak_flops(), 4 * 4.096e12);
  EXPECT_EQ(quad->exp_modules, 512);
  EXPECT_EQ(quad->cache_bytes, 2 << 20);
  EXPECT_EQ(quad->bytes_per_cycle(), 512);
  EXPECT_DOUBLE_EQ(quad->pe.area_mm2, 4 * 2.44);
  const Result<Accelerator> same = ScaledAttenio(4.096e12);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->mac_lines, Accelerator{}.mac_lines);
  EXPECT_EQ(same->cache, Accelerator{}.cache);
  for (const double peak : {0.0, -1.0, 1.0, std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    EXPECT_EQ(ScaledAttenio(peak).status().code(), Code::kInvalidArgument) << peak;
  }
}

struct BadParameter {
  const char* name;  // must be in the message
  std::function<void(Accelerator*)> spoil;
};

class Unphysical : public testing::TestWithParam<BadParameter> {};

TEST_P(Unphysical, IsRefusedByName) {
  Accelerator a;
  GetParam().spoil(&a);
  for (const HwDataflow dataflow : kHwDataflows) {
    const Result<Projection> p = Project(a, HwShape(1024, 64), With(dataflow));
    ASSERT_FALSE(p.ok()) << Name(dataflow);
    EXPECT_EQ(p.status().code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(p.status().message()).find(GetParam().name), std::string::npos) << p.status().message();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Unphysical,
    testing::Values(
        BadParameter{"mac_lines", [](Accelerator* a) { a->mac_lines = 0; }},
        BadParameter{"macs_per_line", [](Accelerator* a) { a->macs_per_line = -3; }},
        BadParameter{"mac_lines", [](Accelerator* a) { a->mac_lines = a->macs_per_line = int64_t{1} << 39; }},
        BadParameter{"exp_modules", [](Accelerator* a) { a->exp_modules = 0; }},
        BadParameter{"cache_bytes", [](Accelerator* a) { a->cache_bytes = 0; }},
        BadParameter{"too small for one row", [](Accelerator* a) { a->cache_bytes = 100; }},
        BadParameter{"kv_buffer_bytes", [](Accelerator* a) { a->kv_buffer_bytes = -1; }},
        BadParameter{"memory_channels", [](Accelerator* a) { a->memory_channels = 0; }},
        BadParameter{"channel_bytes_per_second", [](Accelerator* a) { a->channel_bytes_per_second = -8e9; }},
        BadParameter{"clock_hz", [](Accelerator* a) { a->clock_hz = 0; }},
        BadParameter{"clock_hz", [](Accelerator* a) { a->clock_hz = std::numeric_limits<double>::infinity(); }},
        BadParameter{"demand_efficiency", [](Accelerator* a) { a->demand_efficiency = 1.5; }},
        BadParameter{"demand_efficiency", [](Accelerator* a) { a->demand_efficiency = 0; }},
        BadParameter{"memory_latency_cycles", [](Accelerator* a) { a->memory_latency_cycles = -1; }},
        BadParameter{"softmax_overlap_cycles", [](Accelerator* a) { a->softmax_overlap_cycles = -1; }},
        BadParameter{"spill_rows", [](Accelerator* a) { a->spill_rows = 0; }},
        BadParameter{"mac_exp_cycles", [](Accelerator* a) { a->mac_exp_cycles = 0; }},
        BadParameter{"PE array", [](Accelerator* a) { a->pe.power_mw = -1; }},
        BadParameter{"memory_pj_per_byte", [](Accelerator* a) { a->memory_pj_per_byte = std::nan(""); }},
        BadParameter{"elements of 2 bytes on hardware for 4", [](Accelerator* a) { a->element_bytes = 4; }}));

TEST(Accelerator, KvBufferMustHoldARow) {
  EXPECT_FALSE(Project({}, HwShape(1024, 256)).ok());
  Accelerator wide;
  wide.kv_buffer_bytes = 512;
  EXPECT_TRUE(Project(wide, HwShape(1024, 256)).ok());
}

TEST(Accelerator, ShapesThatMakeNoSense) {
  Shape s = HwShape(1024, 64);
  s.q_len = 0;
  EXPECT_FALSE(Project({}, s).ok());
  s = HwShape(1024, 64, 8);
  s.kv_heads = 3;
  EXPECT_FALSE(Project({}, s).ok());
  s = HwShape(int64_t{1} << 32, 128, 1024);
  EXPECT_FALSE(Project({}, s).ok());  // more products than are counted
}

TEST(Accelerator, GivenSchedules) {
  ProjectOptions options;
  const auto run = [&options](const char* text) {
    options.schedule = *Schedule::Parse(text);
    return Project({}, HwShape(8192, 64), options);
  };
  const Result<Projection> same = run("cache:query-resident:1985x1");
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->cycles, Project({}, HwShape(8192, 64))->cycles);
  EXPECT_FALSE(run("cache:query-resident:4000x1").ok());  // Q and O do not fit
  EXPECT_FALSE(run("cache:unfused:512x512").ok());
  EXPECT_FALSE(run("L2:query-resident:512x512 L1:query-resident:64x64").ok());
}

}  // namespace
}  // namespace attenio
