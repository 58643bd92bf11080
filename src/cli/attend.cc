// attenio attend: attention on tensors from files.
#include <algorithm>
#include <cfloat>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cli/approx_call.h"
#include "cli/command.h"
#include "cli/operands.h"
#include "cli/tensor_file.h"
#include "cli/verify.h"

namespace attenio::cli {
namespace {

struct AttendOptions {
  std::string q, k, v, out, mask, sinks, alibi, lse, window, dtype, out_dtype;
  bool causal = false, explain = false, verify = false, json = false;
  int64_t offset = 0, heads = 0, kv_heads = 0;
  std::optional<double> scale;
  double softcap = 0;
  std::string method = "exact";
  double max_error = 1e-2;
  int max_degree = 8;
  RunOptions run;
};

Tensor ReadOperand(const std::string& address, const std::string& name, const std::string& dtype) {
  Tensor tensor = ReadTensor(address, name);
  if (dtype.empty()) {
    if (tensor.type == FileType::kF64) Refuse("{} holds f64; choose the type to compute in with --dtype", address);
    return tensor;
  }
  if (!ToDType(tensor.type) && tensor.type != FileType::kF64) {
    Refuse("{} holds {}; expected a floating-point type", address, Name(tensor.type));
  }
  return Convert(tensor, ToFileType(ParseDType(dtype, "--dtype")));
}

Problem ReadProblem(const AttendOptions& o) {
  Problem p;
  p.q = ReadOperand(o.q, "q", o.dtype);
  p.k = ReadOperand(o.k, "k", o.dtype);
  p.v = ReadOperand(o.v, "v", o.dtype);
  DescribeQkv(&p, o.heads, o.kv_heads);
  AttentionDesc& d = p.desc;
  d.scale = o.scale;
  d.softcap = o.softcap;
  d.causal = o.causal;
  d.offset = o.offset;
  if (!o.window.empty()) ParseWindow(o.window, &d);
  if (!o.mask.empty()) DescribeMask(&p, ReadTensor(o.mask, "mask"));
  if (!o.sinks.empty()) p.sinks = PerHead(ReadTensor(o.sinks, "sinks"), d.q_heads, "--sinks");
  if (!o.alibi.empty()) p.alibi = PerHead(ReadTensor(o.alibi, "alibi"), d.q_heads, "--alibi");
  d.sinks = p.sinks.has_value();
  d.alibi = p.alibi.has_value();
  d.lse = !o.lse.empty();
  AllocateOutputs(&p, o.out_dtype.empty() ? d.dtype : ParseDType(o.out_dtype, "--out-dtype"));
  return p;
}

std::vector<RowIndex> RowsToVerify(const AttentionDesc& desc) {
  std::mt19937_64 random(1);
  return ChooseRows(desc, 4e9, &random);  // some tens of seconds at most
}

Verdict Verify(const Problem& problem, const Operands& operands, const char* kernel) {
  Verdict verdict;
  const std::vector<RowIndex> rows = RowsToVerify(problem.desc);
  Progress progress("verifying row");
  for (const RowIndex& row : rows) {
    VerifyRow(problem.desc, operands, row, ProbabilityType(kernel), &verdict);
    progress.Update(verdict.rows, static_cast<int64_t>(rows.size()));
  }
  return verdict;
}

// Where results go, checked before the work: names, types, and that the files differ from one another.
std::vector<TensorOutput> Outputs(const AttendOptions& o, const Problem& problem) {
  std::vector<TensorOutput> outputs{{o.out, "out", {}}};
  outputs[0].tensor.type = problem.out.type;
  if (problem.lse) outputs.push_back({o.lse, "lse", {}});
  CheckOutputs(outputs);
  return outputs;
}

// What is said about a run.
struct Account {
  double seconds = 0, flops = 0;
  std::string how;               // "kernel f32-avx512, schedule ..."
  nlohmann::ordered_json facts;  // the same for --json
  std::string explanation;       // of --explain
  std::optional<Verdict> verdict;
};

Account RunExact(const AttendOptions& o, Problem* problem, const DefaultExecutor& executor) {
  PreparedPlan prepared(problem->desc, o.run.ForPlan(executor.workers()));
  Require(prepared.status());
  const Plan& plan = prepared.plan();
  const Operands operands = problem->operands();
  const double start = Seconds();
  Require(prepared.Run(operands, executor.parallel()));
  Account a{.seconds = Seconds() - start, .flops = plan.shape().Flops(), .explanation = plan.Explain()};
  a.how = fmt::format("kernel {}, schedule {}", plan.kernel(), plan.schedule().ToString());
  a.facts = {{"kernel", plan.kernel()}, {"schedule", plan.schedule().ToString()}};
  if (o.verify) a.verdict = Verify(*problem, operands, plan.kernel());
  return a;
}

Account RunApprox(const AttendOptions& o, Problem* problem, const DefaultExecutor& executor) {
  if (!o.run.schedule.empty()) Refuse("--schedule goes with --method exact");
  ApproxOptions options;
  options.method = o.method == "groups" ? ApproxMethod::kGroups : ApproxMethod::kState;
  options.max_error = o.max_error;
  options.max_degree = o.max_degree;
  options.kernel = o.run.kernel;
  options.workers = executor.workers();
  RequireKnownKernel(o.run.kernel);
  ApproxCall call(problem->desc, options);
  Require(call.status());
  const Operands operands = problem->operands();
  const double start = Seconds();
  Require(call.Run(operands, executor.parallel()));
  Account a{.seconds = Seconds() - start, .flops = call.plan().shape().Flops(), .explanation = call.Explain()};
  a.how = fmt::format("method {}: {}", o.method, call.Sentence());
  a.facts = {{"method", o.method}};
  a.facts.update(call.Json());
  if (o.verify) {
    const Result<Plan> exact =
        Plan::Create(problem->desc, o.run.ForPlan(executor.workers()));  // the kernel of exact rows
    Require(exact.ok() ? Status() : exact.status());
    a.verdict =
        VerifyApprox(problem->desc, operands, call, RowsToVerify(problem->desc), ProbabilityType(exact->kernel()));
  }
  return a;
}

int Attend(const AttendOptions& o) {
  Problem problem = ReadProblem(o);
  std::vector<TensorOutput> outputs = Outputs(o, problem);
  DefaultExecutor executor(o.run.threads);
  const Account a = o.method == "exact" ? RunExact(o, &problem, executor) : RunApprox(o, &problem, executor);
  const double gflops = a.flops / std::max(a.seconds, 1e-9) * 1e-9;
  if (o.explain && !o.json) fmt::print("{}\n", a.explanation);
  outputs[0].tensor = std::move(problem.out);
  if (problem.lse) outputs[1].tensor = std::move(*problem.lse);
  const std::string shape = ShapeText(outputs[0].tensor.shape);
  WriteTensors(outputs);

  if (o.json) {
    nlohmann::ordered_json line{{"out", o.out}, {"shape", outputs[0].tensor.shape}};
    line.update(a.facts);
    line.update({{"ms", a.seconds * 1e3}, {"gflops", gflops}, {"threads", executor.workers()}});
    if (o.explain) line["explain"] = a.explanation;
    if (a.verdict) line.update({{"error_over_bound", a.verdict->worst}, {"rows_verified", a.verdict->rows}});
    // Names of files need not be UTF-8, JSON must be.
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{} {} of {}: {:.3f} ms, {:.2f} GFLOP/s{}, {} thread{}, {}\n", o.out, shape,
               Name(outputs[0].tensor.type), a.seconds * 1e3, gflops, o.method == "exact" ? "" : " of exact attention",
               executor.workers(), executor.workers() == 1 ? "" : "s", a.how);
    if (a.verdict) {
      fmt::print("verified {} rows against the f64 oracle: largest error / bound {:.3f}\n", a.verdict->rows,
                 a.verdict->worst);
    }
  }
  if (a.verdict && !a.verdict->ok()) {
    fmt::print(stderr, "attenio: {}\n", a.verdict->where);
    return kExitFailed;
  }
  return kExitOk;
}

}  // namespace

void AddAttend(CLI::App& app, Action* action) {
  CLI::App* sub = app.add_subcommand("attend", "Attention on tensors from files: .npy or FILE.safetensors[:TENSOR]");
  const auto o = std::make_shared<AttendOptions>();
  sub->add_option("--q", o->q, "Queries (batch, heads, len, dim), or (batch, len, heads * dim) with --heads")
      ->required();
  sub->add_option("--k", o->k, "Keys (batch, kv_heads, kv_len, dim), or 3-D with --kv-heads")->required();
  sub->add_option("--v", o->v, "Values, like the keys")->required();
  sub->add_option("--out", o->out, "Where the result goes")->required();
  sub->add_option(
      "--mask", o->mask,
      "Boolean (true = attend) or added mask (batch, heads, len, kv_len); missing axes and axes of 1 broadcast, "
      "fewer keys exclude the rest");
  sub->add_flag("--causal", o->causal, "Key j is allowed for query i if j <= i + offset");
  sub->add_option("--offset", o->offset, "Position of query 0 (default 0: top-left)");
  sub->add_option("--window", o->window, "LEFT,RIGHT keys around the position, -1 = no limit");
  sub->add_option("--scale", o->scale, "Factor of the scores (default 1 / sqrt(dim))")->check(Real(-FLT_MAX, FLT_MAX));
  sub->add_option("--softcap", o->softcap, "s = softcap tanh(s / softcap)")->check(Real(0, FLT_MAX));
  sub->add_option("--sinks", o->sinks, "One extra logit per query head");
  sub->add_option("--alibi", o->alibi, "One ALiBi slope per query head");
  sub->add_option("--heads", o->heads, "Query heads of 3-D tensors")->check(CLI::Range(int64_t{1}, INT64_MAX));
  sub->add_option("--kv-heads", o->kv_heads, "KV heads of 3-D tensors")->check(CLI::Range(int64_t{1}, INT64_MAX));
  sub->add_option("--dtype", o->dtype, "Convert q, k, v to f32, bf16 or f16 first");
  sub->add_option("--out-dtype", o->out_dtype, "Type of the result (default: that of q); f32 suits any");
  sub->add_option("--lse", o->lse, "Also write the log-sum-exp of every row");
  sub->add_option("--method", o->method,
                  "exact, poly (one polynomial state) or groups (keys in groups): approximate where that is faster")
      ->check(CLI::IsMember({"exact", "poly", "groups"}))
      ->capture_default_str();
  sub->add_option(
         "--max-error", o->max_error,
         "Of poly and groups: largest error, relative to the value range of each column; more than 0, at most 1")
      ->capture_default_str();
  sub->add_option("--max-degree", o->max_degree, "Of poly: largest degree")
      ->check(CLI::Range(0, 20))
      ->capture_default_str();
  sub->add_flag("--explain", o->explain,
                "Print the plan: shape, machine, kernel, schedule, traffic; of poly: degrees and features");
  sub->add_flag("--verify", o->verify, "Compare with the f64 oracle; exit code 1 if out of bounds");
  sub->add_flag("--json", o->json, "One JSON object instead of text");
  o->run.AddTo(*sub);
  sub->callback([=] { *action = [=] { return Attend(*o); }; });
}

}  // namespace attenio::cli
