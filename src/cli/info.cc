// attenio info: what this build can do on this machine.
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "attenio/attention.h"
#include "attenio/version.h"
#include "cli/command.h"
#include "cli/machine_file.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

// Of the many flags that Linux reports, those that some kernel could use.
constexpr const char* kFeatures[] = {"sse4_1", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl",
                                     "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16",
                                     "amx_int8", "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2", "sme"};

struct Cpu {
  std::string model;
  std::vector<std::string> features;
};

// From /proc/cpuinfo; empty where there is none.
Cpu ReadCpu() {
  Cpu cpu;
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  std::vector<std::string> flags;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(std::min(colon + 2, line.size()));
    if (line.rfind("model name", 0) == 0 && cpu.model.empty()) cpu.model = value;
    if ((line.rfind("flags", 0) == 0 || line.rfind("Features", 0) == 0) && flags.empty()) {
      std::istringstream words(value);
      for (std::string word; words >> word;) flags.push_back(word);
    }
  }
  for (const char* feature : kFeatures) {
    if (std::find(flags.begin(), flags.end(), feature) != flags.end()) cpu.features.push_back(feature);
  }
  return cpu;
}

std::string Version() {
  return fmt::format("{}.{}.{}", ATTENIO_VERSION_MAJOR, ATTENIO_VERSION_MINOR, ATTENIO_VERSION_PATCH);
}

ordered_json ToJson(const Machine& machine) {
  const Cpu cpu = ReadCpu();
  ordered_json kernels = ordered_json::array();
  for (const KernelInfo& kernel : Kernels()) {
    kernels.push_back({{"kernel", kernel.name},
                       {"available", kernel.available},
                       {"reason", kernel.reason},
                       {"quantum", {kernel.quantum.rows, kernel.quantum.keys, kernel.quantum.dims}}});
  }
  return {{"version", Version()},
          {"cpu", cpu.model},
          {"features", cpu.features},
          {"threads", DefaultExecutor().workers()},
          {"machine", MachineToJson(machine)},
          {"kernels", kernels}};
}

std::string Size(int64_t bytes) {
  if (bytes == 0) return "unbounded";
  if (bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  return bytes % 1024 == 0 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} B", bytes);
}

void PrintText(const Machine& machine) {
  const Cpu cpu = ReadCpu();
  fmt::print("attenio {}\ncpu       {}\nfeatures  {}\n", Version(), cpu.model.empty() ? "unknown" : cpu.model,
             fmt::join(cpu.features, " "));
  fmt::print("threads   {}\nmachine   {}, {} cores", DefaultExecutor().workers(), machine.name, machine.cores);
  if (machine.clock_hz > 0) fmt::print(", {:.2f} GHz", machine.clock_hz * 1e-9);
  if (machine.fma_flops > 0) {
    fmt::print("; per core {:.1f} GFLOP/s f32, {:.1f} bf16 vector, {:.1f} bf16 tensor, {:.2f} G exp/s", machine.fma_flops * 1e-9,
               machine.dot_bf16_flops * 1e-9, machine.tensor_flops * 1e-9, machine.exp_per_second * 1e-9);
  }
  fmt::print("\n");
  for (const MemoryLevel& level : machine.levels) {
    fmt::print("  {:<8}{:>10}", level.name, Size(level.bytes));
    if (level.ways > 0) fmt::print("  {:>2} ways, {}-byte lines, shared by {}", level.ways, level.line_bytes, level.sharers);
    if (level.bytes_per_second > 0) {
      fmt::print(", {:.1f} GB/s alone, {:.1f} shared, {:.1f} ns", level.bytes_per_second * 1e-9, level.shared_bytes_per_second * 1e-9,
                 level.latency_seconds * 1e9);
    }
    fmt::print("\n");
  }
  fmt::print("kernels   (best first; rows x keys x dims at once)\n");
  for (const KernelInfo& kernel : Kernels()) {
    const Quantum& q = kernel.quantum;
    if (kernel.available) {
      fmt::print("  {:<16} {}x{}x{}\n", kernel.name, q.rows, q.keys, q.dims);
    } else {
      fmt::print("  {:<16} no: {}\n", kernel.name, kernel.reason);
    }
  }
}

}  // namespace

void AddInfo(CLI::App& app, Action* action) {
  CLI::App* sub = app.add_subcommand("info", "Version, CPU, memory hierarchy, kernels available and why the others are not");
  const auto json = std::make_shared<bool>(false);
  const auto machine = std::make_shared<std::string>("this");
  sub->add_option("--machine", *machine, "this, attenio (the paper's) or a file of `attenio calibrate`")->capture_default_str();
  sub->add_flag("--json", *json, "One JSON object");
  sub->callback([=] {
    *action = [=] {
      if (*json) {
        fmt::print("{}\n", ToJson(LoadMachine(*machine)).dump());
      } else {
        PrintText(LoadMachine(*machine));
      }
      return kExitOk;
    };
  });
}

}  // namespace attenio::cli
