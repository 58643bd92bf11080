#include "cli/tensor_file.h"

#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "cli/error.h"
#include "cli/npy.h"
#include "cli/safetensors.h"

namespace attenio::cli {
namespace {

constexpr std::string_view kSafetensors = ".safetensors";

struct Address {
  std::string path;
  std::string tensor;  // empty: not named
  bool npy = false;
};

Address Parse(const std::string& text) {
  const size_t colon = text.find(fmt::format("{}:", kSafetensors));
  if (colon != std::string::npos) {
    const size_t split = colon + kSafetensors.size();
    if (split + 1 == text.size()) Refuse("'{}' has no tensor name after the colon", text);
    return {text.substr(0, split), text.substr(split + 1), false};
  }
  if (text.size() > 4 && text.ends_with(".npy")) return {text, "", true};
  if (text.ends_with(kSafetensors)) return {text, "", false};
  Refuse("'{}' is neither FILE.npy nor FILE.safetensors[:TENSOR]", text);
}

}  // namespace

Tensor ReadTensor(const std::string& address, const std::string& name) {
  const Address parsed = Parse(address);
  if (parsed.npy) return ReadNpy(parsed.path);
  const SafetensorsFile file(parsed.path);
  if (!parsed.tensor.empty()) return file.Read(parsed.tensor);
  if (file.Has(name)) return file.Read(name);
  const std::vector<std::string> names = file.names();
  if (names.size() == 1) return file.Read(names[0]);
  Refuse("{} has no tensor '{}'; choose one with {}:TENSOR from {}", parsed.path, name, parsed.path, fmt::join(names, ", "));
}

namespace {

bool IsUtf8(const std::string& text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace

void CheckOutputs(const std::vector<TensorOutput>& outputs) {
  std::set<std::string> places;
  for (const TensorOutput& output : outputs) {
    const Address parsed = Parse(output.address);
    if (parsed.npy && !NpyHolds(output.tensor.type)) {
      Refuse("{}: a .npy file cannot hold {}; write to a .safetensors file or convert", parsed.path, Name(output.tensor.type));
    }
    const std::string tensor = parsed.npy ? "" : parsed.tensor.empty() ? output.name : parsed.tensor;
    if (!IsUtf8(tensor)) Refuse("{}: the name of a tensor must be UTF-8", output.address);
    if (!places.insert(parsed.path + ":" + tensor).second) Refuse("two outputs go to {}", output.address);
  }
}

void WriteTensors(const std::vector<TensorOutput>& outputs) {
  std::map<std::string, std::vector<NamedTensor>> files;
  for (const TensorOutput& output : outputs) {
    const Address parsed = Parse(output.address);
    if (parsed.npy) {
      WriteNpy(parsed.path, output.tensor);
    } else {
      files[parsed.path].push_back({parsed.tensor.empty() ? output.name : parsed.tensor, output.tensor});
    }
  }
  for (const auto& [path, tensors] : files) WriteSafetensors(path, tensors);
}

}  // namespace attenio::cli
