// The attenio command itself: what it prints, what it returns, and how it refuses bad input.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

#include "attenio/attention.h"
#include "cli/command_check.h"
#include "cli/tensor_file.h"
#include "support/files.h"
#include "unfused/onednn.h"

namespace attenio::cli {
namespace {

using nlohmann::json;
using testing::CommandResult;
using testing::DataPath;
using testing::RunAttenio;
using testing::TempFolder;

std::vector<std::string> UsableKernels() {
  std::vector<std::string> names;
  for (const KernelInfo& kernel : Kernels()) {
    if (kernel.available) names.push_back(kernel.name);
  }
  return names;
}

// File names are bytes; JSON and names of tensors are UTF-8.
TEST(Command, NamesThatAreNotUtf8) {
  const TempFolder folder;
  const std::string model = DataPath("tinylm.safetensors");
  std::vector<std::string> arguments = {"attend", "--q",        model + ":q", "--k",  model + ":k",
                                        "--v",    model + ":v", "--json",     "--out"};
  arguments.push_back(folder / "\xff\xfe.safetensors");
  const CommandResult r = RunAttenio(arguments);
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(Lines(r.out).size(), 1u);
  arguments.back() = folder / "out.safetensors:\xff";
  ExpectRefused(arguments, "UTF-8");
}

TEST(Command, HelpVersionAndUsage) {
  for (const char* sub : {"info", "attend", "conformance", "check", "bench"}) {
    const CommandResult r = RunAttenio({sub, "--help"});
    EXPECT_EQ(r.exit_code, 0) << sub;
    EXPECT_NE(r.out.find("--json"), std::string::npos) << sub;
  }
  EXPECT_EQ(RunAttenio({"--help"}).exit_code, 0);
  EXPECT_NE(RunAttenio({"--version"}).out.find("attenio "), std::string::npos);
  ExpectRefused({}, "subcommand");
  ExpectRefused({"attned"}, "");
  ExpectRefused({"info", "--nonsense"}, "--nonsense");
  ExpectRefused({"check", "--cases", "many"}, "--cases");
  ExpectRefused({"check", "--threads", "0"}, "--threads");
  ExpectRefused({"check", "--kernel", "none"}, "not one of");
  ExpectRefused({"check", "--schedule", "12"}, "schedule");
}

TEST(Command, Info) {
  const CommandResult text = RunAttenio({"info"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_NE(text.out.find("plain"), std::string::npos);
  const std::vector<json> lines = Lines(RunAttenio({"info", "--json"}).out);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["kernels"].size(), Kernels().size());
  EXPECT_FALSE(lines[0]["machine"]["levels"].empty());
}

class Attend : public ::testing::Test {
 protected:
  std::vector<std::string> Model(std::vector<std::string> more) const {
    const std::string model = DataPath("tinylm.safetensors");
    std::vector<std::string> arguments{"attend", "--q", model, "--k", model, "--v", model, "--causal", "--scale", "0.125"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  TempFolder folder_;
};

// Attends the q, k, v of a file with each kernel and compares with the out and lse, made in f64, that the file holds.
void ExpectMatchesStored(const std::string& model, const std::vector<std::string>& kernels, bool verify) {
  const TempFolder folder;
  const std::string result = folder / "r.safetensors";
  const Tensor out = ReadTensor(model, "out"), lse = ReadTensor(model, "lse");
  for (const std::string& kernel : kernels) {
    std::vector<std::string> arguments{"attend", "--q", model, "--k", model, "--v", model, "--causal", "--scale", "0.125", "--out",
                                       result, "--lse", result, "--out-dtype", "f32", "--kernel", kernel, "--json"};
    if (verify) arguments.push_back("--verify");
    const CommandResult r = RunAttenio(arguments);
    ASSERT_EQ(r.exit_code, 0) << kernel << r.err;
    if (verify) {
      EXPECT_LE(Lines(r.out).at(0)["error_over_bound"].get<double>(), 1.0);
    }
    const Tensor got = ReadTensor(result, "out"), got_lse = ReadTensor(result, "lse");
    ASSERT_EQ(got.shape, out.shape);
    ASSERT_EQ(got_lse.shape, lse.shape);
    // Scores reach 39 here, which f32 knows to 2e-6: V is of size 1. bf16 weights know 2^-8.
    const bool f32 = kernel.rfind("bf16", 0) != 0 && kernel.rfind("amx", 0) != 0;
    for (int64_t i = 0; i < out.elements(); ++i) ASSERT_NEAR(got.At(i), out.At(i), f32 ? 5e-5 : 2e-2) << kernel << " " << i;
    for (int64_t i = 0; i < lse.elements(); ++i) ASSERT_NEAR(got_lse.At(i), lse.At(i), f32 ? 5e-5 : 1e-2) << kernel << " " << i;
  }
}

TEST_F(Attend, MatchesTheReferenceOfATrainedModel) {
  ExpectMatchesStored(DataPath("tinylm.safetensors"), UsableKernels(), true);
}

TEST_F(Attend, MatchesTheReferenceOfWholeLayers) {
  for (const char* layer : {"layer0", "layer1", "layer3"}) {
    const std::optional<std::string> path = testing::SharedPath(fmt::format("data/tinylm/{}.safetensors", layer));
    if (!path) GTEST_SKIP() << "the shared folder is not there (ATTENIO_SHARED)";
    std::vector<std::string> kernels = UsableKernels();
    // Plain C++ takes ten times as long, minutes under a sanitizer: one layer is enough.
    if (std::string(layer) != "layer0" && kernels.size() > 1) std::erase(kernels, "plain");
    ExpectMatchesStored(*path, kernels, false);
  }
}

TEST_F(Attend, ThreeDimensionalInputsGiveTheSameNumbers) {
  // (1, 2, 3, 4) and the same values as (1, 3, 8).
  Tensor wide = MakeTensor(FileType::kF32, {1, 2, 3, 4}), flat = MakeTensor(FileType::kF32, {1, 3, 8});
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t c = 0; c < 4; ++c) {
        const float value = std::sin(static_cast<float>(h * 12 + i * 4 + c));
        wide.data<float>()[(h * 3 + i) * 4 + c] = flat.data<float>()[(i * 2 + h) * 4 + c] = value;
      }
    }
  }
  WriteTensors({{folder_ / "wide.npy", "", wide}, {folder_ / "flat.npy", "", flat}});
  const std::string w = folder_ / "wide.npy", f = folder_ / "flat.npy", ow = folder_ / "ow.npy", of = folder_ / "of.npy";
  ASSERT_EQ(RunAttenio({"attend", "--q", w, "--k", w, "--v", w, "--out", ow}).exit_code, 0);
  ASSERT_EQ(RunAttenio({"attend", "--q", f, "--k", f, "--v", f, "--out", of, "--heads", "2", "--kv-heads", "2"}).exit_code, 0);
  const Tensor a = ReadTensor(ow, ""), b = ReadTensor(of, "");
  EXPECT_EQ(b.shape, flat.shape);
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t c = 0; c < 4; ++c) EXPECT_EQ(a.At((h * 3 + i) * 4 + c), b.At((i * 2 + h) * 4 + c));
    }
  }
  ExpectRefused({"attend", "--q", f, "--k", f, "--v", f, "--out", of}, "3-D tensors need the number of heads");
  ExpectRefused({"attend", "--q", f, "--k", f, "--v", f, "--out", of, "--heads", "3", "--kv-heads", "2"}, "not a multiple");
}

TEST_F(Attend, EveryModifierAgreesWithTheOracle) {
  Tensor mask = MakeTensor(FileType::kBool, {1024});
  for (int64_t j = 0; j < 1024; ++j) mask.data<uint8_t>()[j] = j % 3 != 0;
  Tensor heads = MakeTensor(FileType::kF64, {4});
  for (int64_t h = 0; h < 4; ++h) heads.data<double>()[h] = 0.01 * static_cast<double>(h + 1);
  WriteTensors({{folder_ / "x.safetensors", "mask", mask}, {folder_ / "heads.npy", "", heads}});
  const CommandResult r = RunAttenio(Model({"--mask", folder_ / "x.safetensors", "--sinks", folder_ / "heads.npy", "--alibi",
                                            folder_ / "heads.npy", "--softcap", "30", "--window", "200,-1", "--offset", "-3",
                                            "--out", folder_ / "o.safetensors", "--threads", "3", "--schedule", "64x48",
                                            "--verify", "--explain"}));
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_NE(r.out.find("schedule"), std::string::npos);
  EXPECT_NE(r.out.find("verified"), std::string::npos);
  EXPECT_EQ(ReadTensor(folder_ / "o.safetensors", "out").type, FileType::kBF16);
}

TEST_F(Attend, ConvertsWithDtype) {
  EXPECT_EQ(RunAttenio(Model({"--dtype", "f32", "--out", folder_ / "o.npy"})).exit_code, 0);
  EXPECT_EQ(ReadTensor(folder_ / "o.npy", "").type, FileType::kF32);
  EXPECT_EQ(RunAttenio(Model({"--dtype", "f16", "--out", folder_ / "o.npy"})).exit_code, 0);
  EXPECT_EQ(ReadTensor(folder_ / "o.npy", "").type, FileType::kF16);
}

TEST_F(Attend, RefusesBadInput) {
  const std::string out = folder_ / "o.safetensors";
  ExpectRefused(Model({"--out", folder_ / "o.npy"}), "cannot hold bf16");
  ExpectRefused(Model({"--out", folder_ / "o.txt"}), "neither FILE.npy nor");
  ExpectRefused(Model({"--out", out + ":x", "--lse", out + ":x"}), "two outputs go to");
  ExpectRefused(Model({"--out", out, "--window", "3"}), "--window 3");
  ExpectRefused(Model({"--out", out, "--window", "-2,0"}), "--window -2,0");
  ExpectRefused(Model({"--out", out, "--dtype", "f8"}), "--dtype f8");
  ExpectRefused(Model({"--out", out, "--heads", "3"}), "3 heads were asked for");
  ExpectRefused(Model({"--out", out, "--softcap", "-1"}), "softcap");
  ExpectRefused(Model({"--out", out, "--mask", DataPath("tinylm.safetensors:lse")}), "does not broadcast");
  ExpectRefused(Model({"--out", out, "--sinks", DataPath("tinylm.safetensors:lse")}), "one floating-point value for each");
  ExpectRefused(Model({"--out", out, "--mask", folder_ / "absent.npy"}), "cannot open");
  ExpectRefused({"attend", "--q", DataPath("tinylm.safetensors:x"), "--k", "k.npy", "--v", "v.npy", "--out", out}, "no tensor 'x'");

  const auto shaped = [&](const std::string& name, FileType type, std::vector<int64_t> shape) {
    WriteTensors({{folder_ / name, "", MakeTensor(type, std::move(shape))}});
    return folder_ / name;
  };
  const auto attend = [&](const std::string& q, const std::string& kv) {
    return std::vector<std::string>{"attend", "--q", q, "--k", kv, "--v", kv, "--out", out};
  };
  const std::string good = shaped("good.npy", FileType::kF32, {1, 2, 3, 4});
  ExpectRefused(attend(shaped("scalar.npy", FileType::kF32, {}), good), "has shape ()");
  ExpectRefused(attend(shaped("rank8.npy", FileType::kF32, {1, 1, 1, 1, 1, 1, 1, 1}), good), "expected (batch, heads, len, dim)");
  ExpectRefused(attend(shaped("dim.npy", FileType::kF32, {1, 2, 3, 5}), good), "do not fit together");
  ExpectRefused(attend(shaped("three.npy", FileType::kF32, {1, 3, 3, 4}), good), "q_heads 3 is not a multiple of kv_heads 2");
  ExpectRefused(attend(shaped("half.npy", FileType::kF16, {1, 2, 3, 4}), good), "must be the same type");
  ExpectRefused(attend(shaped("f64.npy", FileType::kF64, {1, 2, 3, 4}), good), "--dtype");
  const std::string integers = shaped("i64.npy", FileType::kI64, {1, 2, 3, 4});
  ExpectRefused(attend(integers, integers), "expected f32, bf16 or f16");
}

TEST_F(Attend, NothingIsWrittenOnFailure) {
  ExpectRefused(Model({"--out", folder_ / "o.safetensors", "--kernel", "none"}), "none");
  EXPECT_THROW((void)testing::ReadWhole(folder_ / "o.safetensors"), std::runtime_error);
}

// The cases are f32 and f16: a kernel for bf16 alone has nothing to run there.
bool TakesF32(const std::string& kernel) {
  AttentionDesc d;
  d.q_len = d.kv_len = d.qk_dim = d.v_dim = 1;
  Options options;
  options.kernel = kernel;
  return Plan::Create(d, options).ok();
}

// Every kernel, 1, 2, 3 and 7 threads, and 4-key blocks under which short cases cross blocks, too.
void ExpectConforms(const std::string& folder, int64_t cases) {
  for (const std::string& kernel : UsableKernels()) {
    if (!TakesF32(kernel)) continue;
    for (const char* threads : {"1", "2", "3", "7"}) {
      for (const char* schedule : {"", "8x4", "2x4 pack:block"}) {
        std::vector<std::string> arguments{"conformance", folder, "--json", "--kernel", kernel, "--threads", threads};
        if (*schedule != '\0') arguments.insert(arguments.end(), {"--schedule", schedule});
        const CommandResult r = RunAttenio(arguments);
        EXPECT_EQ(r.exit_code, 0) << kernel << " " << threads << " " << schedule << "\n" << r.out;
        int64_t passed = 0, skipped = 0;
        for (const json& line : Lines(r.out)) {
          passed += line["status"] == "passed";
          skipped += line["status"] == "skipped";
        }
        EXPECT_EQ(passed + skipped, cases);
        EXPECT_NE(r.err.find(fmt::format("{} passed, 0 failed, {} skipped", passed, skipped)), std::string::npos) << r.err;
      }
    }
  }
}

TEST(Conformance, OwnCases) { ExpectConforms(DataPath("conformance"), 2); }

TEST(Conformance, OnnxCases) {
  const std::optional<std::string> folder = testing::SharedPath("conformance/onnx-attention");
  if (!folder) GTEST_SKIP() << "the shared folder is not there (ATTENIO_SHARED)";
  ExpectConforms(*folder, 62);
}

// A case that is wrong in one place, made from a good one.
class BrokenCase : public ::testing::Test {
 protected:
  BrokenCase() {
    for (const char* name : {"case.json", "Q.npy", "K.npy", "V.npy", "Y.npy", "attn_mask.npy", "nonpad_kv_seqlen.npy"}) {
      testing::WriteWhole(folder_ / name, testing::ReadWhole(DataPath("conformance/padded_batch_f16_boolmask_poison/") + name));
    }
  }
  // The only case's line; the command must fail with exit code 1.
  json Fails() const {
    const CommandResult r = RunAttenio({"conformance", folder_ / "", "--json"});
    EXPECT_EQ(r.exit_code, 1);
    EXPECT_NE(r.err.find("0 passed, 1 failed, 0 skipped"), std::string::npos) << r.err;
    return Lines(r.out).at(0);
  }
  void ReplaceInCase(const std::string& from, const std::string& to) const {
    std::string text = testing::ReadWhole(folder_ / "case.json");
    text.replace(text.find(from), from.size(), to);
    testing::WriteWhole(folder_ / "case.json", text);
  }
  TempFolder folder_;
};

TEST_F(BrokenCase, WrongNumber) {
  Tensor y = ReadTensor(folder_ / "Y.npy", "");
  y.data<uint16_t>()[17] ^= 0x40;
  WriteTensors({{folder_ / "Y.npy", "", y}});
  const json line = Fails();
  EXPECT_EQ(line["status"], "failed");
  EXPECT_NE(line["detail"].get<std::string>().find("Y(0, 0, 0, 17)"), std::string::npos) << line;
  EXPECT_GT(line["worst_error"].get<double>(), line["tolerance"].get<double>());
}

TEST_F(BrokenCase, NanOnOneSide) {
  Tensor y = ReadTensor(folder_ / "Y.npy", "");
  y.data<uint16_t>()[5] = 0x7e00;
  WriteTensors({{folder_ / "Y.npy", "", y}});
  EXPECT_EQ(Fails()["status"], "failed");
}

TEST_F(BrokenCase, UnknownAttribute) {
  ReplaceInCase("\"attributes\": {}", "\"attributes\": {\"is_casual\": 1}");
  EXPECT_NE(Fails()["detail"].get<std::string>().find("is_casual"), std::string::npos);
}

TEST_F(BrokenCase, MissingInput) {
  ReplaceInCase("\"V\": \"V.npy\",", "");
  EXPECT_NE(Fails()["detail"].get<std::string>().find("V"), std::string::npos);
}

TEST_F(BrokenCase, NotJson) {
  testing::WriteWhole(folder_ / "case.json", "{");
  EXPECT_EQ(Fails()["status"], "failed");
}

TEST(Conformance, RefusesFoldersWithoutCases) {
  const TempFolder folder;
  ExpectRefused({"conformance", folder / ""}, "holds no case.json");
  ExpectRefused({"conformance", folder / "absent"}, "cannot list");
}

TEST(Check, PassesWithEveryKernel) {
  for (const std::string& kernel : UsableKernels()) {
    const CommandResult r = RunAttenio({"check", "--cases", "60", "--kernel", kernel, "--threads", "2", "--json"});
    EXPECT_EQ(r.exit_code, 0) << r.out;
    EXPECT_EQ(Lines(r.out).size(), 60u);
  }
}

TEST(Check, CoversEverything) {
  const CommandResult r = RunAttenio({"check", "--cases", "500"});
  EXPECT_EQ(r.exit_code, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("across >= 3 key blocks"), std::string::npos);
  EXPECT_NE(r.err.find("500 passed, 0 failed, 0 skipped"), std::string::npos) << r.err;
}

TEST(Bench, ServesCasesAndSkipsUnknownOnes) {
  const CommandResult r = RunAttenio({"bench", "--serve", "--threads", "1"}, "dec-f32-n1024 0\nnope 0\n- 0\ndec-bf16-n1024 0\n");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const std::vector<json> lines = Lines(r.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["case"], "dec-f32-n1024");
  EXPECT_EQ(lines[0]["sig"].size(), 8u);
  EXPECT_GT(lines[0]["gbps"].get<double>(), 0);
  EXPECT_EQ(lines[1]["skip"], "no such case");
  // The same inputs up to the rounding of 16 bits give nearly the same output.
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(lines[0]["sig"][i].get<double>(), lines[2]["sig"][i].get<double>(), 0.02);
}

TEST(Bench, VerifiesAndReportsEveryImplementation) {
  const TempFolder folder;
  testing::WriteWhole(folder / "shapes.tsv",
                      "name\tB\tHq\tHkv\tNq\tNkv\tD\tDv\tcausal\tdtype\nsmall\t1\t2\t1\t40\t60\t16\t24\t1\tf16\n");
  const CommandResult r =
      RunAttenio({"bench", "--shapes", folder / "shapes.tsv", "--seconds", "0", "--threads", "2", "--json"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const std::vector<json> lines = Lines(r.out);
  ASSERT_EQ(lines.size(), 2u);
  for (const json& line : lines) {
    EXPECT_EQ(line["status"], "ok");
    EXPECT_LE(line["error_over_bound"].get<double>(), 1.0);
    EXPECT_GT(line["peak_fma"].get<double>(), 0);
  }
  EXPECT_EQ(lines[0]["impl"], "exact");
  EXPECT_EQ(lines[1]["impl"], "naive");
  if (!unfused::OneDnnVersion().empty() && HasOpenMP()) {
    testing::WriteWhole(folder / "f32.tsv", "heading\nsmall 1 4 2 40 60 16 24 0 f32\n");
    const CommandResult onednn = RunAttenio({"bench", "--shapes", folder / "f32.tsv", "--seconds", "0", "--impl", "onednn", "--json"});
    ASSERT_EQ(onednn.exit_code, 0) << onednn.err;
    const json line = Lines(onednn.out)[0];
    EXPECT_EQ(line["status"], "ok");
    EXPECT_LE(line["error_over_bound"].get<double>(), 1.0);
    EXPECT_EQ(line["kernel"].get<std::string>().find("onednn " + unfused::OneDnnVersion()), 0u) << line;
  }
  testing::WriteWhole(folder / "bad.tsv", "heading\nx 1 3 2 1 1 1 1 0 f32\n");
  ExpectRefused({"bench", "--shapes", folder / "bad.tsv"}, "bad.tsv:2");
  ExpectRefused({"bench", "--cases", "("}, "--cases (");
  ExpectRefused({"bench", "--cases", "no such case"}, "no case has such a name");
  ExpectRefused({"bench", "--impl", "exact,fast"}, "--impl fast");
}

}  // namespace
}  // namespace attenio::cli
