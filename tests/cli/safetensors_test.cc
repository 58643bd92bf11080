#include "cli/safetensors.h"

#include <gtest/gtest.h>

#include "cli/error.h"
#include "cli/tensor_file.h"
#include "support/files.h"

namespace attenio::cli {
namespace {

using testing::TempFolder;
using testing::WriteWhole;

// A file with this header and data whose length field says `length` (-1: the truth).
std::string File(const std::string& header, const std::string& data, int64_t length = -1) {
  uint64_t n = length >= 0 ? static_cast<uint64_t>(length) : header.size();
  std::string file;
  for (int i = 0; i < 8; ++i, n >>= 8) file += static_cast<char>(n & 0xff);
  return file + header + data;
}

std::string Entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

// The reason why the file, or a tensor of it, is refused; empty when all is read.
std::string Refusal(const std::string& content) {
  const TempFolder folder;
  WriteWhole(folder / "a.safetensors", content);
  try {
    const SafetensorsFile file(folder / "a.safetensors");
    for (const std::string& name : file.names()) (void)file.Read(name);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

void ExpectRefused(const std::string& content, const std::string& reason) {
  EXPECT_NE(Refusal(content).find(reason), std::string::npos) << Refusal(content);
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  const TempFolder folder;
  std::vector<NamedTensor> tensors;
  for (FileType type : {FileType::kF32, FileType::kBF16, FileType::kF16, FileType::kF64, FileType::kBool, FileType::kI32,
                        FileType::kI64}) {
    Tensor tensor = MakeTensor(type, {2, 3});
    for (size_t i = 0; i < tensor.bytes.size(); ++i) tensor.bytes[i] = static_cast<std::byte>(i * 11);
    tensors.push_back({Name(type), tensor});
  }
  tensors.push_back({"scalar", MakeTensor(FileType::kF32, {})});
  tensors.push_back({"empty", MakeTensor(FileType::kF32, {3, 0})});
  WriteSafetensors(folder / "a.safetensors", tensors);
  const SafetensorsFile file(folder / "a.safetensors");
  EXPECT_EQ(file.names().size(), tensors.size());
  for (const NamedTensor& named : tensors) {
    const Tensor back = file.Read(named.name);
    EXPECT_EQ(back.type, named.tensor.type);
    EXPECT_EQ(back.shape, named.tensor.shape);
    EXPECT_EQ(back.bytes, named.tensor.bytes);
  }
}

TEST(Safetensors, AcceptsWhatOthersWrite) {
  const std::string data(8, '\0');
  EXPECT_EQ(Refusal(File(R"({"__metadata__":{"format":"pt"},"x":)" + Entry("F32", "[2]", "[0,8]") + "}   ", data)), "");
  EXPECT_EQ(Refusal(File("{}", "")), "");
  // A type that is never read does not spoil the others.
  const TempFolder folder;
  WriteWhole(folder / "a.safetensors",
             File(R"({"u":)" + Entry("U8", "[4]", "[0,4]") + R"(,"x":)" + Entry("F32", "[1]", "[4,8]") + "}", data));
  EXPECT_EQ(ReadTensor(folder / "a.safetensors:x", "q").elements(), 1);
  EXPECT_THROW((void)ReadTensor(folder / "a.safetensors:u", "q"), InputError);
}

TEST(Safetensors, RefusesSizesThatLie) {
  const std::string data(8, '\0');
  const auto one = [](const std::string& entry) { return R"({"x":)" + entry + "}"; };
  ExpectRefused("", "too few");
  ExpectRefused("1234567", "too few");
  ExpectRefused(File("{}", "", 3), "the header says it has 3 bytes");
  ExpectRefused(File("{}", "", INT64_MAX), "the header says it has 9223372036854775807 bytes");
  ExpectRefused(std::string(8, '\xff') + "{}", "the header says it has 18446744073709551615 bytes");
  ExpectRefused(File(one(Entry("F32", "[2]", "[0,8]")), data.substr(1)), "need 8 bytes of data, the file has 7");
  ExpectRefused(File(one(Entry("F32", "[2]", "[0,8]")), data + "x"), "need 8 bytes of data, the file has 9");
  ExpectRefused(File(one(Entry("F32", "[3]", "[0,8]")), data), "needs 12 bytes, data_offsets give it 8");
  ExpectRefused(File(one(Entry("F32", "[2]", "[8,0]")), data), "not [begin, end]");
  ExpectRefused(File(one(Entry("F32", "[2]", "[0,8,8]")), data), "not [begin, end]");
  ExpectRefused(File(one(Entry("F32", "[1]", "[4,8]")), data), "overlap or leave a gap at byte 0");
  ExpectRefused(File(one(Entry("F32", "[-2]", "[0,8]")), data), "not a size");
  ExpectRefused(File(one(Entry("F32", "[2.0]", "[0,8]")), data), "not a size");
  ExpectRefused(File(one(Entry("F32", "[\"2\"]", "[0,8]")), data), "not a size");
  ExpectRefused(File(one(Entry("F32", "2", "[0,8]")), data), "not a list");
  ExpectRefused(File(one(Entry("F32", "[18446744073709551615]", "[0,8]")), data), "not a size");
  ExpectRefused(File(one(Entry("F32", "[99999999999999999999999]", "[0,8]")), data), "not a size");
  ExpectRefused(File(one(Entry("F32", "[4611686018427387904,4]", "[0,0]")), ""), "does not fit into 64 bits");
  ExpectRefused(File(one(Entry("F99", "[2]", "[0,8]")), data), "element type 'F99' is not known");
  std::string ones = "[1";
  for (int i = 0; i < 99; ++i) ones += ",1";
  ExpectRefused(File(one(Entry("F32", ones + "]", "[0,4]")), data.substr(4)), "has 100 dimensions; at most 8");
}

TEST(Safetensors, RefusesHeadersThatAreNoHeaders) {
  const std::string data(8, '\0');
  const std::string x = Entry("F32", "[1]", "[0,4]"), y = Entry("F32", "[1]", "[4,8]");
  ExpectRefused(File("[]", ""), "no JSON object");
  ExpectRefused(File("", ""), "no JSON object");
  ExpectRefused(File("{", ""), "not JSON");
  ExpectRefused(File("{\"x\":" + x + "}{", data), "not JSON");
  ExpectRefused(File("{\"x\":" + x + ",\"x\":" + y + "}", data), "the key 'x' twice");
  ExpectRefused(File(R"({"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", data), "'dtype' twice");
  ExpectRefused(File("{\"x\":" + x + ",\"y\":" + x + "}", data), "overlap or leave a gap");
  ExpectRefused(File("{\"x\xff\":" + Entry("F32", "[2]", "[0,8]") + "}", data), "not JSON");
  ExpectRefused(File(R"({"x":{"dtype":"F32","shape":[2]}})", data), "lacks one of");
  ExpectRefused(File(R"({"x":7})", data), "lacks one of");
  ExpectRefused(File(R"({"x":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})", data), "lacks one of");
  ExpectRefused(File("{\"x\":" + std::string(100000, '['), ""), "nests deeper");
  std::string deep = "{\"x\":";
  for (int i = 0; i < 100000; ++i) deep += "{\"x\":";
  ExpectRefused(File(deep, ""), "nests deeper");
}

TEST(TensorFile, Addresses) {
  const TempFolder folder;
  const Tensor one = MakeTensor(FileType::kF32, {1}), two = MakeTensor(FileType::kF32, {2});
  WriteTensors({{folder / "a.safetensors", "q", one},
                {folder / "a.safetensors:other", "k", two},
                {folder / "b.safetensors:only", "q", two}});
  EXPECT_EQ(ReadTensor(folder / "a.safetensors", "q").elements(), 1);
  EXPECT_EQ(ReadTensor(folder / "a.safetensors:other", "q").elements(), 2);
  EXPECT_EQ(ReadTensor(folder / "b.safetensors", "q").elements(), 2);
  EXPECT_THROW((void)ReadTensor(folder / "a.safetensors", "v"), InputError);
  EXPECT_THROW((void)ReadTensor(folder / "a.safetensors:v", "v"), InputError);
  EXPECT_THROW((void)ReadTensor(folder / "a.safetensors:", "q"), InputError);
  EXPECT_THROW((void)ReadTensor(folder / "a.txt", "q"), InputError);
  EXPECT_THROW(WriteTensors({{folder / "c.safetensors", "q", one}, {folder / "c.safetensors", "q", one}}), InputError);
}

}  // namespace
}  // namespace attenio::cli
