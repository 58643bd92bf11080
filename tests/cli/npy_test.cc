#include "cli/npy.h"

#include <gtest/gtest.h>

#include "cli/error.h"
#include "support/files.h"

namespace attenio::cli {
namespace {

using testing::TempFolder;
using testing::WriteWhole;

// A version 1 file with this header text and data.
std::string Npy(std::string header, const std::string& data) {
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + data;
}

std::string Header(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

// The reason why `content` is refused; empty when it is read.
std::string Refusal(const std::string& content) {
  const TempFolder folder;
  WriteWhole(folder / "a.npy", content);
  try {
    (void)ReadNpy(folder / "a.npy");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

void ExpectRefused(const std::string& content, const std::string& reason) {
  EXPECT_NE(Refusal(content).find(reason), std::string::npos) << Refusal(content);
}

TEST(Npy, WhatIsWrittenIsRead) {
  const TempFolder folder;
  for (FileType type :
       {FileType::kF32, FileType::kF16, FileType::kF64, FileType::kBool, FileType::kI32, FileType::kI64}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {7}, {2, 3}, {1, 0, 4}, {2, 1, 3, 5}}) {
      Tensor tensor = MakeTensor(type, shape);
      for (size_t i = 0; i < tensor.bytes.size(); ++i) tensor.bytes[i] = static_cast<std::byte>(i * 7);
      WriteNpy(folder / "a.npy", tensor);
      const Tensor back = ReadNpy(folder / "a.npy");
      EXPECT_EQ(back.type, type);
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(back.bytes, tensor.bytes);
    }
  }
}

TEST(Npy, DataIsAlignedAsNumPyDoes) {
  const TempFolder folder;
  WriteNpy(folder / "a.npy", MakeTensor(FileType::kF32, {3}));
  const std::string file = testing::ReadWhole(folder / "a.npy");
  EXPECT_EQ((file.size() - 12) % 64, 0u);
  EXPECT_EQ(file[file.size() - 13], '\n');
}

TEST(Npy, ReadsVersionsTwoAndThree) {
  const std::string header = Header("<f4", "(2,)") + "\n";
  for (char version : {2, 3}) {
    std::string file = std::string("\x93NUMPY") + version + std::string(1, '\0');
    file += static_cast<char>(header.size());
    file += std::string(3, '\0') + header + std::string(8, '\0');
    EXPECT_EQ(Refusal(file), "");
  }
}

TEST(Npy, RefusesWithTheReason) {
  const std::string data(24, '\0');
  ExpectRefused("", "not a .npy file");
  ExpectRefused("\x93NUMPY", "not a .npy file");
  ExpectRefused("PK\x03\x04 a zip file", "not a .npy file");
  ExpectRefused(Npy(Header(">f4", "(2, 3)"), data), "big-endian");
  ExpectRefused(Npy(Header("<f4", "(2, 3)", "True"), data), "Fortran order");
  ExpectRefused(Npy(Header("<f4", "(2, 3)"), data.substr(1)), "needs 24 bytes of data, the file has 23");
  ExpectRefused(Npy(Header("<f4", "(2, 3)"), data + "x"), "needs 24 bytes of data, the file has 25");
  ExpectRefused(Npy(Header("<c8", "(3,)"), data), "element type '<c8' is not read");
  ExpectRefused(Npy(Header("|O", "(3,)"), data), "element type");
  ExpectRefused(Npy(Header("<V2", "(12,)"), data), "bfloat16");
  ExpectRefused(Npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (6,), }", data), "structured");
  ExpectRefused(Npy(Header("<f4", "(4611686018427387904, 4)"), data), "does not fit into 64 bits");
  ExpectRefused(Npy(Header("<f4", "(0, 4611686018427387904, 4)"), ""), "does not fit into 64 bits");
  ExpectRefused(Npy(Header("<f4", "(99999999999999999999,)"), data), "does not fit into 64 bits");
  ExpectRefused(Npy(Header("<f4", "(1000000000000,)"), data), "needs 4000000000000 bytes");
  ExpectRefused(Npy(Header("<f4", "(-6,)"), data), "not a tuple of sizes");
  ExpectRefused(Npy(Header("<f4", "(6)"), data), "not a tuple");
  ExpectRefused(Npy(Header("<f4", "(2 3)"), data), "not a tuple of sizes");
  ExpectRefused(Npy(Header("<f4", "(6.0,)"), data), "not a tuple of sizes");
  std::string ones = "(";
  for (int i = 0; i < 100; ++i) ones += "1, ";
  ExpectRefused(Npy(Header("<f4", ones + ")"), data.substr(0, 4)), "more than 8 dimensions");
}

TEST(Npy, RefusesBadHeaders) {
  const std::string data(4, '\0');
  ExpectRefused(Npy("{'descr': '<f4', 'fortran_order': False}", data), "not all of");
  ExpectRefused(Npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", data), "'descr' twice");
  ExpectRefused(Npy("{'descr': '<f4', 'order': 'C', 'fortran_order': False, 'shape': (1,)}", data), "none of");
  ExpectRefused(Npy(Header("<f4", "(1,)") + " + 1", data), "after the closing brace");
  ExpectRefused(Npy(Header("<f4", "(1,)", "Maybe"), data), "neither True nor False");
  ExpectRefused(Npy("{'descr: ", data), "a string without an end");
  ExpectRefused(Npy("", data), "no '{'");
  std::string lying = Npy(Header("<f4", "(1,)"), data);
  lying[9] = '\x7f';
  ExpectRefused(lying, "the header says it has");
  std::string future = Npy(Header("<f4", "(1,)"), data);
  future[6] = 9;
  ExpectRefused(future, "version 9.0 is not known");
}

TEST(Npy, RefusesWhatIsNotAFile) {
  const TempFolder folder;
  EXPECT_THROW((void)ReadNpy(folder / "absent.npy"), InputError);
  EXPECT_THROW((void)ReadNpy(folder / ""), InputError);
  EXPECT_THROW((void)ReadNpy("/dev/zero"), InputError);
  EXPECT_THROW(WriteNpy(folder / "no/such/folder.npy", MakeTensor(FileType::kF32, {1})), InputError);
  EXPECT_THROW(WriteNpy(folder / "b.npy", MakeTensor(FileType::kBF16, {1})), InputError);
}

}  // namespace
}  // namespace attenio::cli
