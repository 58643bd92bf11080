#include "cli/npy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "base/math.h"
#include "cli/error.h"
#include "cli/file.h"

namespace attenio::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMaxHeader = 1 << 20;  // NumPy itself trusts at most 10000 bytes
constexpr size_t kMaxRank = 8;           // attention needs 4; NumPy allows 64

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

// A reader of the Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and of nothing else.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Header Parse() {
    Header header;
    bool have_descr = false, have_order = false, have_shape = false;
    Expect('{');
    while (!Accept('}')) {
      const std::string key = String();
      Expect(':');
      if (key == "descr") {
        Once(&have_descr, key);
        header.descr = Descr();
      } else if (key == "fortran_order") {
        Once(&have_order, key);
        header.fortran = Bool();
      } else if (key == "shape") {
        Once(&have_shape, key);
        header.shape = Shape();
      } else {
        Bad("a key that is none of 'descr', 'fortran_order', 'shape'");
      }
      if (!Accept(',')) {
        Expect('}');
        break;
      }
    }
    SkipSpace();
    if (at_ != text_.size()) Bad("text after the closing brace");
    if (!have_descr || !have_order || !have_shape) Bad("not all of 'descr', 'fortran_order' and 'shape'");
    return header;
  }

 private:
  [[noreturn]] void Bad(std::string_view what) const { Refuse("{}: the .npy header has {}", path_, what); }

  void Once(bool* seen, const std::string& key) const {
    if (*seen) Bad(fmt::format("'{}' twice", key));
    *seen = true;
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  bool Accept(char c) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void Expect(char c) {
    if (!Accept(c)) Bad(fmt::format("no '{}' at byte {}", c, at_));
  }

  std::string String() {
    SkipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') Bad(fmt::format("no string at byte {}", at_));
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) Bad("a string without an end");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    for (char c : value) {
      if (c < ' ' || c > '~' || c == '\\') Bad("a string with characters that do not belong there");
    }
    at_ = end + 1;
    return std::string(value);
  }

  std::string Descr() {
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '[') Bad("a structured dtype, which is not read");
    return String();
  }

  bool Bool() {
    SkipSpace();
    for (bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    Bad("a 'fortran_order' that is neither True nor False");
  }

  int64_t Number() {
    SkipSpace();
    const size_t begin = at_;
    int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (!MultiplyInto(&value, 10) || !AddInto(&value, text_[at_] - '0')) Bad("a size that does not fit into 64 bits");
    }
    if (at_ == begin) Bad("a 'shape' that is not a tuple of sizes");
    return value;
  }

  std::vector<int64_t> Shape() {
    std::vector<int64_t> shape;
    Expect('(');
    bool comma = true;
    while (!Accept(')')) {
      if (!comma) Bad("a 'shape' that is not a tuple of sizes");
      shape.push_back(Number());
      comma = Accept(',');
      if (shape.size() > kMaxRank) Bad(fmt::format("more than {} dimensions", kMaxRank));
    }
    if (shape.size() == 1 && !comma) Bad("a 'shape' that is a number, not a tuple");
    return shape;
  }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
};

struct Descr {
  const char* text;
  FileType type;
};
constexpr Descr kDescrs[] = {{"<f4", FileType::kF32},  {"<f2", FileType::kF16}, {"<f8", FileType::kF64},
                             {"|b1", FileType::kBool}, {"<i4", FileType::kI32}, {"<i8", FileType::kI64}};

FileType TypeOf(const Header& header, const std::string& path) {
  for (const Descr& d : kDescrs) {
    if (header.descr == d.text) return d.type;
  }
  if (!header.descr.empty() && header.descr[0] == '>') {
    Refuse("{}: big-endian data ('{}') is not read; save a.astype(a.dtype.newbyteorder('<'))", path, header.descr);
  }
  if (header.descr.find("V2") != std::string::npos || header.descr == "bfloat16") {
    Refuse("{}: '{}' looks like bfloat16, which NumPy cannot name; use .safetensors for bf16", path, header.descr);
  }
  Refuse("{}: element type '{}' is not read; expected float32, float16, float64, bool, int32 or int64", path, header.descr);
}

}  // namespace

Tensor ReadNpy(const std::string& path) {
  const InputFile file(path);
  std::array<unsigned char, 12> start{};
  const int64_t have = std::min<int64_t>(file.size(), static_cast<int64_t>(start.size()));
  file.Read(0, std::as_writable_bytes(std::span(start).first(static_cast<size_t>(have))));
  if (have < 10 || std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    Refuse("{} is not a .npy file: it does not begin with \\x93NUMPY", path);
  }
  const int version = start[6];
  if (version < 1 || version > 3) Refuse("{}: .npy format version {}.{} is not known", path, version, start[7]);
  int64_t header_bytes = start[8] | start[9] << 8;
  int64_t offset = 10;
  if (version >= 2) {
    header_bytes |= int64_t{start[10]} << 16 | int64_t{start[11]} << 24;
    offset = 12;
  }
  if (header_bytes > file.size() - offset) {
    Refuse("{}: the header says it has {} bytes, the file has {}", path, header_bytes, file.size());
  }
  if (header_bytes > kMaxHeader) Refuse("{}: a header of {} bytes is longer than {}", path, header_bytes, kMaxHeader);

  std::string text(static_cast<size_t>(header_bytes), ' ');
  file.Read(offset, std::as_writable_bytes(std::span(text)));
  offset += header_bytes;
  const Header header = HeaderParser(text, path).Parse();
  const FileType type = TypeOf(header, path);
  if (header.fortran) {
    Refuse("{}: Fortran order (column-major) is not read; save numpy.ascontiguousarray(a)", path);
  }
  const std::optional<int64_t> bytes = TensorBytes(type, header.shape);
  if (!bytes) Refuse("{}: shape {} does not fit into 64 bits", path, ShapeText(header.shape));
  if (*bytes != file.size() - offset) {
    Refuse("{}: shape {} of {} needs {} bytes of data, the file has {}", path, ShapeText(header.shape), Name(type), *bytes,
           file.size() - offset);
  }
  Tensor tensor = MakeTensor(type, header.shape);
  file.Read(offset, tensor.bytes);
  return tensor;
}

bool NpyHolds(FileType type) {
  return std::any_of(std::begin(kDescrs), std::end(kDescrs), [=](const Descr& d) { return d.type == type; });
}

void WriteNpy(const std::string& path, const Tensor& tensor) {
  const char* descr = nullptr;
  for (const Descr& d : kDescrs) {
    if (d.type == tensor.type) descr = d.text;
  }
  if (descr == nullptr) {
    Refuse("{}: a .npy file cannot hold {}; write to a .safetensors file", path, Name(tensor.type));
  }
  std::string shape = fmt::format("{}", fmt::join(tensor.shape, ", "));
  if (tensor.rank() == 1) shape += ",";
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  // NumPy aligns the data to 64 bytes; the header ends with a newline.
  const size_t total = static_cast<size_t>(RoundUp(static_cast<int64_t>(10 + text.size() + 1), 64));
  text.resize(total - 11, ' ');
  text += '\n';
  std::string start(kMagic);
  start += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(start)), std::as_bytes(std::span(text)), tensor.bytes};
  WriteFile(path, pieces);
}

}  // namespace attenio::cli
