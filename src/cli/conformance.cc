// attenio conformance: cases of the ONNX operator Attention (case.json beside .npy files) against this library.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/onnx_case.h"
#include "cli/tensor_file.h"
#include "cli/verify.h"

namespace attenio::cli {
namespace {

namespace fs = std::filesystem;

struct ConformanceOptions {
  std::string folder;
  bool json = false;
  RunOptions run;
};

struct CaseResult {
  std::string status = "passed";  // "failed", "skipped"
  std::string kernel, detail;
  double worst = 0, error = 0, tolerance = 0;  // error / tolerance of the worst element, and both
};

// |diff| <= atol + rtol |expected|: of the ONNX cases f32 1e-5 and 5e-6, 16-bit types 1e-3.
double Tolerance(FileType type, double expected) {
  return type == FileType::kF32 ? 1e-5 + 5e-6 * std::abs(expected) : 1e-3;
}

void Fail(CaseResult* result, const std::string& detail) {
  result->status = "failed";
  if (result->detail.empty()) result->detail = detail;
}

std::string Position(const std::vector<int64_t>& shape, int64_t i) {
  std::vector<int64_t> at(shape.size());
  for (size_t d = shape.size(); d-- > 0; i /= shape[d]) at[d] = i % shape[d];
  return ShapeText(at);
}

void Compare(const std::string& name, const Tensor& got, const Tensor& want, CaseResult* result) {
  if (got.shape != want.shape || got.type != want.type) {
    return Fail(result, fmt::format("{} is {} {}, expected {} {}", name, Name(got.type), ShapeText(got.shape), Name(want.type),
                                    ShapeText(want.shape)));
  }
  for (int64_t i = 0; i < got.elements(); ++i) {
    const double g = got.At(i), w = want.At(i), tolerance = Tolerance(want.type, w);
    const double ratio = ErrorOverBound(g, w, tolerance);
    if (ratio < result->worst || (ratio == result->worst && result->tolerance > 0)) continue;
    result->worst = ratio;
    result->error = std::abs(g - w);
    result->tolerance = tolerance;
    if (ratio > 1) {
      result->status = "failed";
      result->detail = fmt::format("{}{} is {:.9g}, expected {:.9g}, error {:.3g} > tolerance {:.3g}", name,
                                   Position(want.shape, i), g, w, result->error, tolerance);
    }
  }
}

CaseResult RunCase(const std::string& path, const ConformanceOptions& o, DefaultExecutor* executor) {
  CaseResult result;
  OnnxCase onnx = ReadOnnxCase(path);
  Problem& problem = onnx.problem;
  problem.Bind();
  PreparedPlan prepared(problem.desc, o.run.ForPlan(executor->workers()));
  if (!prepared.status().ok()) {
    // A kernel chosen by name may refuse a type; otherwise every case has a kernel.
    const bool refused = !o.run.kernel.empty() && prepared.status().code() == Code::kUnsupported;
    result.status = refused ? "skipped" : "failed";
    result.detail = prepared.status().message();
    return result;
  }
  result.kernel = prepared.plan().kernel();
  const Status status = prepared.Run(problem.operands(), executor->parallel());
  if (!status.ok()) {
    Fail(&result, status.message());
    return result;
  }
  for (const auto& [name, want] : onnx.expected) {
    const Tensor& got = name == "Y" ? problem.out : name == "present_key" ? problem.k : problem.v;
    Compare(name, got, want, &result);
  }
  return result;
}

std::vector<std::string> FindCases(const std::string& folder) {
  std::vector<std::string> cases;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename() == "case.json") cases.push_back(it->path().parent_path().string());
  }
  if (error) Refuse("cannot list {}: {}", folder, error.message());
  if (cases.empty()) Refuse("{} holds no case.json", folder);
  std::sort(cases.begin(), cases.end());
  return cases;
}

void Print(const std::string& name, const CaseResult& r, bool json) {
  if (json) {
    nlohmann::ordered_json line{{"case", name},           {"kernel", r.kernel},       {"status", r.status},
                                {"worst_error", r.error}, {"tolerance", r.tolerance}, {"detail", r.detail}};
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{:<8}{}{}{}\n", r.status, name, r.detail.empty() ? "" : ": ", r.detail);
  }
}

int Conformance(const ConformanceOptions& o) {
  const std::vector<std::string> cases = FindCases(o.folder);
  DefaultExecutor executor(o.run.threads);
  (void)o.run.ForPlan(executor.workers());  // a schedule that does not parse is bad usage, not a failed case
  RequireKnownKernel(o.run.kernel);
  Progress progress("case");
  int64_t passed = 0, failed = 0, skipped = 0;
  for (const std::string& path : cases) {
    const std::string name = fs::path(path).filename().string();
    progress.Update(passed + failed + skipped, static_cast<int64_t>(cases.size()), name);
    CaseResult result;
    try {
      result = RunCase(path, o, &executor);
    } catch (const InputError& error) {
      Fail(&result, error.what());
    }
    ++(result.status == "passed" ? passed : result.status == "failed" ? failed : skipped);
    Print(name, result, o.json);
  }
  fmt::print(stderr, "{} passed, {} failed, {} skipped\n", passed, failed, skipped);
  return failed == 0 && passed > 0 ? kExitOk : kExitFailed;
}

}  // namespace

void AddConformance(CLI::App& app, Action* action) {
  CLI::App* sub = app.add_subcommand("conformance", "Run cases of the ONNX operator Attention (case.json and .npy files)");
  const auto o = std::make_shared<ConformanceOptions>();
  sub->add_option("folder", o->folder, "Every case.json below this folder is a case")->required();
  sub->add_flag("--json", o->json, "One JSON object per case");
  o->run.AddTo(*sub);
  sub->callback([=] { *action = [=] { return Conformance(*o); }; });
}

}  // namespace attenio::cli
