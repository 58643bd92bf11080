// Damaged files never crash a reader: every mutation is either read or refused with InputError. Seeded, hence replayable;
// run under the address and undefined-behaviour sanitizers, this is where a wrong bound would show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "cli/error.h"
#include "cli/npy.h"
#include "cli/safetensors.h"
#include "support/files.h"

namespace attenio::cli {
namespace {

using testing::TempFolder;

const char* const kWords[] = {"99999999999", "-1", "18446744073709551615", "9223372036854775807", "1e9", "[", "]", "{", "}",
                              "\"", "'", ",", ":", "null", "True", "\xff\xfe", "F64", ">f4", "|O", "()", "0"};

// What damage looks like in practice: flipped bits, overwritten bytes, numbers made huge, cut ends, moved and doubled pieces.
std::string Mutate(std::string text, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return n == 0 ? size_t{0} : static_cast<size_t>(random() % n); };
  const size_t changes = 1 + below(3);
  for (size_t i = 0; i < changes && !text.empty(); ++i) {
    const size_t at = below(text.size());
    const std::string word = kWords[below(std::size(kWords))];
    switch (below(7)) {
      case 0: text[at] = static_cast<char>(text[at] ^ 1 << below(8)); break;
      case 1: text[at] = static_cast<char>(random()); break;
      case 2: text.resize(at); break;
      case 3: text.insert(at, word); break;
      case 4: text.insert(at, text.substr(below(text.size()), below(40))); break;
      case 5: text.erase(at, below(20)); break;
      default: text.replace(at, std::min(word.size(), text.size() - at), word);
    }
  }
  return text;
}

// Reads `mutations` damaged versions of `sample`; seven of eight are damaged in the first `header` bytes only.
template <class Read>
void Fuzz(const std::string& sample, size_t header, int mutations, Read read) {
  const TempFolder folder;
  int accepted = 0, refused = 0;
  for (int seed = 0; seed < mutations; ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const bool everywhere = seed % 8 == 0;
    const std::string damaged =
        everywhere ? Mutate(sample, random) : Mutate(sample.substr(0, header), random) + sample.substr(header);
    testing::WriteWhole(folder / "file", damaged);
    try {
      read(folder / "file");
      ++accepted;
    } catch (const InputError& error) {
      EXPECT_FALSE(std::string(error.what()).empty());
      ++refused;
    }
  }
  // The mutations reach both outcomes, or the test would show nothing.
  EXPECT_GT(accepted, mutations / 200);
  EXPECT_GT(refused, mutations / 4);
}

constexpr int kMutations = 4000;

void ReadEveryElement(const Tensor& t) {
  EXPECT_EQ(TensorBytes(t.type, t.shape), static_cast<int64_t>(t.bytes.size()));
  for (int64_t i = 0; i < t.elements(); ++i) (void)t.At(i);
}

TEST(FileFuzz, Npy) {
  const TempFolder folder;
  WriteNpy(folder / "a.npy", MakeTensor(FileType::kF32, {2, 3, 4}));
  Fuzz(testing::ReadWhole(folder / "a.npy"), 80, kMutations,
       [](const std::string& path) { ReadEveryElement(ReadNpy(path)); });
}

TEST(FileFuzz, Safetensors) {
  const TempFolder folder;
  WriteSafetensors(folder / "a.safetensors",
                   {{"q", MakeTensor(FileType::kBF16, {2, 3})}, {"mask", MakeTensor(FileType::kBool, {4})}});
  const std::string sample = testing::ReadWhole(folder / "a.safetensors");
  Fuzz(sample, sample.size() - 16, kMutations, [](const std::string& path) {
    const SafetensorsFile file(path);
    for (const std::string& name : file.names()) ReadEveryElement(file.Read(name));
  });
}

}  // namespace
}  // namespace attenio::cli
