#include "cli/accelerator_json.h"

#include <cstddef>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "cli/command.h"
#include "cli/file.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

// One list for reading and writing: f(name, member).
template <class A, class F>
void ForEachField(A& a, F&& f) {
  f("name", a.name);
  f("mac_lines", a.mac_lines);
  f("macs_per_line", a.macs_per_line);
  f("exp_modules", a.exp_modules);
  f("kv_buffer_bytes", a.kv_buffer_bytes);
  f("cache_bytes", a.cache_bytes);
  f("memory_channels", a.memory_channels);
  f("channel_bytes_per_second", a.channel_bytes_per_second);
  f("clock_hz", a.clock_hz);
  f("element_bytes", a.element_bytes);
  f("memory_latency_cycles", a.memory_latency_cycles);
  f("softmax_overlap_cycles", a.softmax_overlap_cycles);
  f("demand_efficiency", a.demand_efficiency);
  f("decoupled", a.decoupled);
  f("spill_when_cheaper", a.spill_when_cheaper);
  f("spill_rows", a.spill_rows);
  f("mac_exp_cycles", a.mac_exp_cycles);
  f("pe_area_mm2", a.pe.area_mm2);
  f("pe_power_mw", a.pe.power_mw);
  f("exp_area_mm2", a.exp.area_mm2);
  f("exp_power_mw", a.exp.power_mw);
  f("kv_buffer_area_mm2", a.kv_buffer.area_mm2);
  f("kv_buffer_power_mw", a.kv_buffer.power_mw);
  f("cache_area_mm2", a.cache.area_mm2);
  f("cache_power_mw", a.cache.power_mw);
  f("memory_pj_per_byte", a.memory_pj_per_byte);
}

// A field takes the JSON type of its own: 1.5 lines or "64" are mistakes.
bool Fits(const ordered_json& value, const int64_t&) {
  return value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX);
}
bool Fits(const ordered_json& value, const double&) { return value.is_number(); }
bool Fits(const ordered_json& value, const bool&) { return value.is_boolean(); }
bool Fits(const ordered_json& value, const std::string&) { return value.is_string(); }

bool Preset(const std::string& name, Accelerator* a) {
  if (name == "attenio") {
    *a = {};
    return true;
  }
  if (name == "fusemax-cloud") {
    *a = FusemaxCloud();
    return true;
  }
  if (name.rfind("attenio:", 0) != 0) return false;
  const std::string peak = name.substr(8);
  char* end = nullptr;
  const double flops = std::strtod(peak.c_str(), &end);
  if (peak.empty() || *end != '\0') Refuse("--accelerator {}: expected attenio:PEAK with the peak in flop/s", name);
  const Result<Accelerator> scaled = ScaledAttenio(flops);
  Require(scaled.status());
  *a = *scaled;
  return true;
}

ordered_json ReadJson(const std::string& path) {
  constexpr int64_t kMost = 1 << 20;  // a description is far shorter
  const InputFile file(path);
  if (file.size() > kMost) Refuse("{}: {} bytes are too many for the description of an accelerator", path, file.size());
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.Read(0, std::as_writable_bytes(std::span(text)));
  ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) Refuse("{}: not a JSON object", path);
  return json;
}

}  // namespace

Accelerator LoadAccelerator(const std::string& name_or_file) {
  Accelerator a;
  if (Preset(name_or_file, &a)) return a;
  ordered_json json = ReadJson(name_or_file);
  if (json.contains("base")) {
    const ordered_json& base = json["base"];
    if (!base.is_string() || !Preset(base.get<std::string>(), &a)) {
      Refuse("{}: base {}: expected attenio, fusemax-cloud or attenio:PEAK", name_or_file, base.dump());
    }
    json.erase("base");
  }
  ForEachField(a, [&](const char* name, auto& member) {
    if (!json.contains(name)) return;
    const ordered_json& value = json[name];
    if (!Fits(value, member)) Refuse("{}: {}: {} has the wrong type", name_or_file, name, value.dump());
    value.get_to(member);
    json.erase(name);
  });
  if (!json.empty()) Refuse("{}: unknown parameter {}", name_or_file, json.begin().key());
  if (const Status s = Validate(a); !s.ok()) Refuse("{}: {}", name_or_file, s.message());
  return a;
}

std::string ToJson(const Accelerator& accelerator) {
  ordered_json json;
  ForEachField(accelerator, [&](const char* name, const auto& member) { json[name] = member; });
  return json.dump(1) + "\n";
}

}  // namespace attenio::cli
