#include "cli/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/math.h"
#include "cli/error.h"

namespace attenio::cli {
namespace {

using nlohmann::json;

constexpr int64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr size_t kMaxRank = 8;
constexpr int kMaxDepth = 3;  // {"name": {"shape": [..]}}

struct TypeName {
  const char* text;
  FileType type;
};
constexpr TypeName kTypeNames[] = {{"F32", FileType::kF32},   {"BF16", FileType::kBF16}, {"F16", FileType::kF16},
                                   {"F64", FileType::kF64},   {"BOOL", FileType::kBool}, {"I32", FileType::kI32},
                                   {"I64", FileType::kI64}};

// Bytes of one element of any type of the format, or 0: sizes are checked for types that are never read, too.
int64_t FormatBytes(const std::string& dtype) {
  if (dtype == "BOOL" || dtype == "U8" || dtype == "I8" || dtype.rfind("F8_", 0) == 0) return 1;
  if (dtype == "U16" || dtype == "I16" || dtype == "F16" || dtype == "BF16") return 2;
  if (dtype == "U32" || dtype == "I32" || dtype == "F32") return 4;
  if (dtype == "U64" || dtype == "I64" || dtype == "F64") return 8;
  return 0;
}

// nlohmann's parser keeps the last of two equal keys and nests without limit; this callback refuses both. It checks UTF-8
// itself.
json ParseHeader(const std::string& text, const std::string& path) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (depth > kMaxDepth) Refuse("{}: the header nests deeper than the format allows", path);
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      Refuse("{}: the header has the key '{}' twice", path, value.get<std::string>());
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    Refuse("{}: the header is not JSON: {}", path, error.what());
  }
}

// A JSON number that is a size; anything else (negative, fraction, 1e3, beyond 63 bits) is refused.
std::optional<int64_t> Size(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const uint64_t number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::vector<int64_t> Sizes(const json& value, const std::string& what) {
  if (!value.is_array()) Refuse("{} is not a list", what);
  if (value.size() > kMaxRank) Refuse("{} has {} dimensions; at most {} are read", what, value.size(), kMaxRank);
  std::vector<int64_t> sizes;
  for (const json& item : value) {
    const std::optional<int64_t> size = Size(item);
    if (!size) Refuse("{} holds something that is not a size", what);
    sizes.push_back(*size);
  }
  return sizes;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  std::array<unsigned char, 8> start{};
  if (file_.size() < 8) Refuse("{} is not a .safetensors file: {} bytes are too few", path, file_.size());
  file_.Read(0, std::as_writable_bytes(std::span(start)));
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | start[static_cast<size_t>(i)];
  if (length > static_cast<uint64_t>(file_.size() - 8)) {
    Refuse("{}: the header says it has {} bytes, the file has {}", path, length, file_.size());
  }
  if (length > static_cast<uint64_t>(kMaxHeader)) Refuse("{}: a header of {} bytes is too long", path, length);
  std::string text(static_cast<size_t>(length), ' ');
  file_.Read(8, std::as_writable_bytes(std::span(text)));
  if (text.empty() || text[0] != '{') Refuse("{} is not a .safetensors file: the header is no JSON object", path);
  data_offset_ = 8 + static_cast<int64_t>(length);
  ReadHeader(text);
  CheckCoverage(file_.size() - data_offset_);
}

void SafetensorsFile::ReadHeader(const std::string& text) {
  const std::string& path = file_.path();
  const json header = ParseHeader(text, path);
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string what = fmt::format("{}: tensor '{}'", path, name);
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets") ||
        !value["dtype"].is_string()) {
      Refuse("{} lacks one of dtype, shape, data_offsets", what);
    }
    Entry entry;
    entry.dtype = value["dtype"].get<std::string>();
    entry.shape = Sizes(value["shape"], what + ": shape");
    const std::vector<int64_t> offsets = Sizes(value["data_offsets"], what + ": data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1]) Refuse("{}: data_offsets is not [begin, end]", what);
    entry.begin = offsets[0];
    entry.end = offsets[1];
    const int64_t element = FormatBytes(entry.dtype);
    if (element == 0) Refuse("{}: element type '{}' is not known", what, entry.dtype);
    const std::optional<int64_t> bytes = TensorBytes(FileType::kBool, entry.shape);
    int64_t total = bytes.value_or(0);
    if (!bytes || !MultiplyInto(&total, element)) {
      Refuse("{}: shape {} does not fit into 64 bits", what, ShapeText(entry.shape));
    }
    if (total != entry.end - entry.begin) {
      Refuse("{}: shape {} of {} needs {} bytes, data_offsets give it {}", what, ShapeText(entry.shape), entry.dtype, total,
             entry.end - entry.begin);
    }
    entries_.emplace(name, std::move(entry));
  }
}

void SafetensorsFile::CheckCoverage(int64_t data_bytes) const {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const auto& [name, entry] : entries_) ranges.emplace_back(entry.begin, entry.end);
  std::sort(ranges.begin(), ranges.end());
  int64_t covered = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != covered) Refuse("{}: tensors overlap or leave a gap at byte {} of the data", file_.path(), covered);
    covered = end;
  }
  if (covered != data_bytes) {
    Refuse("{}: the tensors need {} bytes of data, the file has {}", file_.path(), covered, data_bytes);
  }
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

Tensor SafetensorsFile::Read(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    Refuse("{} has no tensor '{}'; it has {}", file_.path(), name, fmt::join(names(), ", "));
  }
  const Entry& entry = found->second;
  for (const TypeName& row : kTypeNames) {
    if (entry.dtype != row.text) continue;
    Tensor tensor = MakeTensor(row.type, entry.shape);
    file_.Read(data_offset_ + entry.begin, tensor.bytes);
    return tensor;
  }
  Refuse("{}: tensor '{}' holds {}; expected F32, BF16, F16, F64, BOOL, I32 or I64", file_.path(), name, entry.dtype);
}

void WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  nlohmann::ordered_json header;
  int64_t offset = 0;
  for (const NamedTensor& named : tensors) {
    if (header.contains(named.name)) Refuse("{}: two tensors are called '{}'", path, named.name);
    const char* dtype = nullptr;
    for (const TypeName& row : kTypeNames) {
      if (row.type == named.tensor.type) dtype = row.text;
    }
    const int64_t end = offset + static_cast<int64_t>(named.tensor.bytes.size());
    header[named.name] = {{"dtype", dtype}, {"shape", named.tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.is_null() ? "{}" : header.dump();
  text.resize(static_cast<size_t>(RoundUp(static_cast<int64_t>(text.size()), 8)), ' ');  // data begins aligned to 8
  std::array<unsigned char, 8> start{};
  for (size_t i = 0; i < 8; ++i) start[i] = static_cast<unsigned char>(text.size() >> 8 * i & 0xff);
  std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span(start)), std::as_bytes(std::span(text))};
  for (const NamedTensor& named : tensors) pieces.emplace_back(named.tensor.bytes);
  WriteFile(path, pieces);
}

}  // namespace attenio::cli
