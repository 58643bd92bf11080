#include "cli/machine_file.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>

#include "cli/error.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

// Reads the members of one object; each may be read once, and none may be left over.
class Members {
 public:
  Members(const ordered_json& json, std::string origin) : json_(json), origin_(std::move(origin)) {
    if (!json.is_object()) Fail("expected an object");
  }

  void Read(const char* name, std::string* value) {
    if (const ordered_json* member = Find(name)) {
      if (!member->is_string()) Fail(std::string(name) + " is not a string");
      *value = member->get<std::string>();
    }
  }
  void Read(const char* name, int64_t* value, int64_t least) {
    if (const ordered_json* member = Find(name)) {
      if (!member->is_number_integer() || member->get<int64_t>() < least) {
        Fail(std::string(name) + " is " + member->dump() + ", expected an integer from " + std::to_string(least));
      }
      *value = member->get<int64_t>();
    }
  }
  void Read(const char* name, double* value) {
    if (const ordered_json* member = Find(name)) {
      if (!member->is_number() || !(member->get<double>() >= 0) || std::isinf(member->get<double>())) {
        Fail(std::string(name) + " is " + member->dump() + ", expected a number from 0");
      }
      *value = member->get<double>();
    }
  }
  const ordered_json* Find(const char* name) {
    seen_.insert(name);
    const auto it = json_.find(name);
    return it == json_.end() ? nullptr : &*it;
  }
  void Finish() {
    for (const auto& item : json_.items()) {
      if (!seen_.count(item.key())) Fail("unknown member \"" + item.key() + "\"");
    }
  }
  [[noreturn]] void Fail(const std::string& why) { throw InputError(origin_ + ": " + why); }

 private:
  const ordered_json& json_;
  std::string origin_;
  std::set<std::string> seen_;
};

ordered_json KernelsToJson(const Machine& m) {
  ordered_json kernels = ordered_json::array();
  for (const KernelRates& k : m.kernels) {
    ordered_json tiles = ordered_json::array(), packing = ordered_json::array();
    for (const TileRate& t : k.tiles) {
      tiles.push_back(
          {{"rows", t.rows}, {"product_flops", t.product_flops}, {"scores_per_second", t.scores_per_second}});
    }
    for (const PackRate& p : k.packing) {
      packing.push_back({{"element_bytes", p.element_bytes}, {"bytes_per_second", p.bytes_per_second}});
    }
    kernels.push_back({{"kernel", k.kernel}, {"tiles", tiles}, {"packing", packing}});
  }
  return kernels;
}

KernelRates KernelFromJson(const ordered_json& json, const std::string& origin) {
  KernelRates k;
  Members kernel(json, origin);
  kernel.Read("kernel", &k.kernel);
  const ordered_json* tiles = kernel.Find("tiles");
  const ordered_json* packing = kernel.Find("packing");
  kernel.Finish();
  if (k.kernel.empty()) kernel.Fail("kernel: expected a name");
  if (tiles == nullptr || !tiles->is_array() || tiles->empty())
    kernel.Fail("tiles: expected a list, fewest rows first");
  if (packing == nullptr || !packing->is_array()) kernel.Fail("packing: expected a list");
  for (const ordered_json& entry : *tiles) {
    TileRate t;
    Members member(entry, origin + ": tiles[" + std::to_string(k.tiles.size()) + "]");
    member.Read("rows", &t.rows, k.tiles.empty() ? 1 : k.tiles.back().rows + 1);
    member.Read("product_flops", &t.product_flops);
    member.Read("scores_per_second", &t.scores_per_second);
    member.Finish();
    if (t.rows < 1 || !(t.product_flops > 0) || !(t.scores_per_second > 0))
      member.Fail("expected rows and rates above 0");
    k.tiles.push_back(t);
  }
  for (const ordered_json& entry : *packing) {
    PackRate p;
    Members member(entry, origin + ": packing[" + std::to_string(k.packing.size()) + "]");
    member.Read("element_bytes", &p.element_bytes, 1);
    member.Read("bytes_per_second", &p.bytes_per_second);
    member.Finish();
    if (p.element_bytes < 1 || !(p.bytes_per_second > 0)) member.Fail("expected element_bytes and a rate above 0");
    k.packing.push_back(p);
  }
  return k;
}

}  // namespace

ordered_json MachineToJson(const Machine& m) {
  ordered_json levels = ordered_json::array();
  for (const MemoryLevel& l : m.levels) {
    levels.push_back({{"level", l.name},
                      {"bytes", l.bytes},
                      {"ways", l.ways},
                      {"line_bytes", l.line_bytes},
                      {"sharers", l.sharers},
                      {"bytes_per_second", l.bytes_per_second},
                      {"shared_bytes_per_second", l.shared_bytes_per_second},
                      {"latency_seconds", l.latency_seconds}});
  }
  return {{"name", m.name},
          {"cores", m.cores},
          {"clock_hz", m.clock_hz},
          {"fma_flops", m.fma_flops},
          {"dot_bf16_flops", m.dot_bf16_flops},
          {"tensor_flops", m.tensor_flops},
          {"exp_per_second", m.exp_per_second},
          {"levels", levels},
          {"kernels", KernelsToJson(m)}};
}

Machine MachineFromJson(const ordered_json& json, const std::string& origin) {
  Machine m;
  Members top(json, origin);
  top.Read("name", &m.name);
  top.Read("cores", &m.cores, 1);
  top.Read("clock_hz", &m.clock_hz);
  top.Read("fma_flops", &m.fma_flops);
  top.Read("dot_bf16_flops", &m.dot_bf16_flops);
  top.Read("tensor_flops", &m.tensor_flops);
  top.Read("exp_per_second", &m.exp_per_second);
  const ordered_json* levels = top.Find("levels");
  if (levels == nullptr || !levels->is_array() || levels->empty())
    top.Fail("levels: expected a list, innermost level first");
  const ordered_json* kernels = top.Find("kernels");
  if (kernels != nullptr && !kernels->is_array()) top.Fail("kernels: expected a list");
  top.Finish();
  for (size_t i = 0; kernels != nullptr && i < kernels->size(); ++i) {
    m.kernels.push_back(KernelFromJson((*kernels)[i], origin + ": kernels[" + std::to_string(i) + "]"));
  }
  for (const ordered_json& entry : *levels) {
    MemoryLevel l;
    Members member(entry, origin + ": levels[" + std::to_string(m.levels.size()) + "]");
    member.Read("level", &l.name);
    member.Read("bytes", &l.bytes, 0);
    member.Read("ways", &l.ways, 0);
    member.Read("line_bytes", &l.line_bytes, 1);
    member.Read("sharers", &l.sharers, 1);
    member.Read("bytes_per_second", &l.bytes_per_second);
    member.Read("shared_bytes_per_second", &l.shared_bytes_per_second);
    member.Read("latency_seconds", &l.latency_seconds);
    member.Finish();
    if (l.name.empty()) member.Fail("level: expected a name");
    if (m.Find(l.name) != nullptr) member.Fail("level \"" + l.name + "\" is given twice");
    m.levels.push_back(l);
  }
  return m;
}

Machine LoadMachine(const std::string& name) {
  std::string path = name;
  if (name == "attenio") return AttenioMachine();
  if (name == "this") {
    const char* variable = std::getenv("ATTENIO_MACHINE");
    if (variable == nullptr || *variable == '\0') return ThisMachine();
    path = variable;
  }
  std::ifstream file(path);
  if (!file) throw InputError("cannot open machine file " + path);
  const ordered_json json = ordered_json::parse(file, nullptr, false);
  if (json.is_discarded()) throw InputError("machine file " + path + " is not JSON");
  return MachineFromJson(json, "machine file " + path);
}

}  // namespace attenio::cli
