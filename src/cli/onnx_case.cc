#include "cli/onnx_case.h"

#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/error.h"
#include "cli/npy.h"

namespace attenio::cli {
namespace {

using nlohmann::json;

struct Attributes {
  bool causal = false;
  int64_t q_heads = 0, kv_heads = 0;
  int64_t left = kUnbounded, right = kUnbounded;
  std::optional<double> scale;
  double softcap = 0;
};

const std::set<std::string> kInputs = {"Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"};
const std::set<std::string> kOutputs = {"Y", "present_key", "present_value", "qk_matmul_output"};

json ParseCase(const std::string& path) {
  std::ifstream file(path);
  if (!file) Refuse("cannot open {}", path);
  const json value = json::parse(file, nullptr, false);
  if (!value.is_object()) Refuse("{} is not a JSON object", path);
  if (value.value("op", json()) != "Attention") Refuse("{}: \"op\" is not \"Attention\"", path);
  return value;
}

Attributes ParseAttributes(const json& value, const std::string& path) {
  Attributes a;
  if (!value.is_object()) Refuse("{}: no attributes", path);
  for (const auto& [name, item] : value.items()) {
    if (!item.is_number()) Refuse("{}: attribute {} is not a number", path, name);
    if (name == "is_causal") {
      a.causal = item.get<int64_t>() != 0;
    } else if (name == "q_num_heads") {
      a.q_heads = item.get<int64_t>();
    } else if (name == "kv_num_heads") {
      a.kv_heads = item.get<int64_t>();
    } else if (name == "left_window_size") {
      a.left = item.get<int64_t>();
    } else if (name == "right_window_size") {
      a.right = item.get<int64_t>();
    } else if (name == "scale") {
      a.scale = item.get<double>();
    } else if (name == "softcap") {
      a.softcap = item.get<double>();
    } else if (name != "qk_matmul_output_mode" && name != "softmax_precision") {
      // Those two choose an output that is not asked for, and a precision that is always f32 here.
      Refuse("{}: attribute {} is not known", path, name);
    }
  }
  return a;
}

// name -> tensor of one of the two lists; only names of `known` may occur, qk_matmul_output is left out.
std::map<std::string, Tensor> ReadTensors(const json& value, const std::set<std::string>& known, const std::string& folder) {
  if (!value.is_object()) Refuse("{}/case.json lacks inputs or outputs", folder);
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, file] : value.items()) {
    if (known.count(name) == 0 || !file.is_string()) Refuse("{}/case.json: tensor {} is not known", folder, name);
    const std::string path = file.get<std::string>();
    if (path.find('/') != std::string::npos) Refuse("{}/case.json: {} is not a file of this folder", folder, path);
    if (name != "qk_matmul_output") tensors.emplace(name, ReadNpy(folder + "/" + path));
  }
  return tensors;
}

// (batch, len, heads * dim) -> (batch, heads, len, dim).
Tensor To4D(const Tensor& t, int64_t heads) {
  const int64_t batch = t.shape[0], len = t.shape[1], dim = t.shape[2] / heads;
  Tensor out = MakeTensor(t.type, {batch, heads, len, dim});
  const size_t piece = static_cast<size_t>(dim * ElementBytes(t.type));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < len && piece > 0; ++i) {
        const int64_t to = (b * heads + h) * len + i, from = (b * len + i) * heads + h;
        std::memcpy(out.bytes.data() + static_cast<size_t>(to) * piece, t.bytes.data() + static_cast<size_t>(from) * piece, piece);
      }
    }
  }
  return out;
}

// Appends `later` to `past` along the length: present = past ++ new.
Tensor Append(const Tensor& past, const Tensor& later) {
  const bool fits = past.rank() == 4 && later.rank() == 4 && past.type == later.type && past.shape[0] == later.shape[0] &&
                    past.shape[1] == later.shape[1] && past.shape[3] == later.shape[3];
  if (!fits) Refuse("past {} and new {} do not fit", ShapeText(past.shape), ShapeText(later.shape));
  std::vector<int64_t> shape = past.shape;
  shape[2] += later.shape[2];
  Tensor out = MakeTensor(past.type, shape);
  const int64_t row = shape[3] * ElementBytes(past.type);
  const size_t a = static_cast<size_t>(past.shape[2] * row), b = static_cast<size_t>(later.shape[2] * row);
  std::byte* to = out.bytes.data();
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i, to += a + b) {
    if (a > 0) std::memcpy(to, past.bytes.data() + static_cast<size_t>(i) * a, a);
    if (b > 0) std::memcpy(to + a, later.bytes.data() + static_cast<size_t>(i) * b, b);
  }
  return out;
}

// Keys or values as the operator returns them: 4-D, past first.
Tensor Present(const Tensor& later, const Tensor& past, int64_t heads) {
  if (later.rank() != 3) return Append(past, later);
  if (heads <= 0 || later.shape[2] % heads != 0) Refuse("{} heads do not divide {}", heads, ShapeText(later.shape));
  return Append(past, To4D(later, heads));
}

// The offset of the causal and window bands: past length, or per batch nonpad - q_len, else 0.
void SetPositions(const std::map<std::string, Tensor>& inputs, Problem* p) {
  const auto past = inputs.find("past_key");
  if (past != inputs.end()) p->desc.offset = past->second.shape[2];
  const auto nonpad = inputs.find("nonpad_kv_seqlen");
  if (nonpad == inputs.end()) return;
  const Tensor& lengths = nonpad->second;
  if (lengths.type != FileType::kI64 || lengths.elements() != p->desc.batch) {
    Refuse("nonpad_kv_seqlen is {} of {}; expected one i64 per batch entry", ShapeText(lengths.shape), Name(lengths.type));
  }
  for (int64_t b = 0; b < p->desc.batch; ++b) {
    const int64_t length = lengths.data<int64_t>()[b];
    p->kv_lens.push_back(length);
    p->offsets.push_back(length - p->desc.q_len);
  }
}

}  // namespace

OnnxCase ReadOnnxCase(const std::string& folder) {
  const std::string path = folder + "/case.json";
  const json value = ParseCase(path);
  const Attributes a = ParseAttributes(value.value("attributes", json()), path);
  const std::map<std::string, Tensor> inputs = ReadTensors(value.value("inputs", json()), kInputs, folder);
  for (const char* name : {"Q", "K", "V"}) {
    if (inputs.count(name) == 0) Refuse("{}: input {} is missing", path, name);
  }
  if (inputs.count("past_key") != inputs.count("past_value")) Refuse("{}: only one of past_key, past_value", path);
  OnnxCase onnx;
  Problem& p = onnx.problem;
  p.k = inputs.at("K");
  p.v = inputs.at("V");
  p.q = inputs.at("Q");
  if (inputs.count("past_key") != 0) {
    p.k = Present(p.k, inputs.at("past_key"), a.kv_heads);
    p.v = Present(p.v, inputs.at("past_value"), a.kv_heads);
  }
  DescribeQkv(&p, a.q_heads, a.kv_heads);
  p.desc.causal = a.causal;
  p.desc.window_left = a.left;
  p.desc.window_right = a.right;
  p.desc.scale = a.scale;
  p.desc.softcap = a.softcap;
  SetPositions(inputs, &p);
  if (inputs.count("attn_mask") != 0) DescribeMask(&p, inputs.at("attn_mask"));
  AllocateOutputs(&p, p.desc.dtype);
  for (auto& [name, tensor] : ReadTensors(value.value("outputs", json()), kOutputs, folder)) {
    if (name == "present_key" || name == "present_value") {
      if (inputs.count("past_key") == 0) Refuse("{}: {} without past", path, name);
    }
    onnx.expected.emplace_back(name, tensor);
  }
  if (onnx.expected.empty()) Refuse("{}: no outputs to compare", path);
  p.Bind();
  return onnx;
}

}  // namespace attenio::cli
