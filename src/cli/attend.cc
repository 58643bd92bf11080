// attenio attend: attention on tensors from files.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

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

Verdict Verify(const Problem& problem, const Operands& operands, const char* kernel) {
  std::mt19937_64 random(1);
  Verdict verdict;
  const std::vector<RowIndex> rows = ChooseRows(problem.desc, 4e9, &random);  // some tens of seconds at most
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

int Attend(const AttendOptions& o) {
  Problem problem = ReadProblem(o);
  std::vector<TensorOutput> outputs = Outputs(o, problem);
  const AttentionDesc& d = problem.desc;
  DefaultExecutor executor(o.run.threads);
  PreparedPlan prepared(d, o.run.ForPlan(executor.workers()));
  Require(prepared.status());
  const Plan& plan = prepared.plan();
  if (o.explain && !o.json) fmt::print("{}\n", plan.Explain());
  const Operands operands = problem.operands();
  const double start = Seconds();
  Require(prepared.Run(operands, executor.parallel()));
  const double seconds = Seconds() - start;
  const double gflops = plan.shape().Flops() / std::max(seconds, 1e-9) * 1e-9;

  std::optional<Verdict> verdict;
  if (o.verify) verdict = Verify(problem, operands, plan.kernel());
  outputs[0].tensor = std::move(problem.out);
  if (problem.lse) outputs[1].tensor = std::move(*problem.lse);
  const std::string shape = ShapeText(outputs[0].tensor.shape);
  WriteTensors(outputs);

  if (o.json) {
    nlohmann::ordered_json line{{"out", o.out},
                                {"shape", outputs[0].tensor.shape},
                                {"kernel", plan.kernel()},
                                {"schedule", plan.schedule().ToString()},
                                {"ms", seconds * 1e3},
                                {"gflops", gflops},
                                {"threads", executor.workers()}};
    if (o.explain) line["explain"] = plan.Explain();
    if (verdict) line.update({{"error_over_bound", verdict->worst}, {"rows_verified", verdict->rows}});
    // Names of files need not be UTF-8, JSON must be.
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{} {} of {}: {:.3f} ms, {:.2f} GFLOP/s, {} thread{}, kernel {}, schedule {}\n", o.out, shape,
               Name(outputs[0].tensor.type), seconds * 1e3, gflops, executor.workers(),
               executor.workers() == 1 ? "" : "s", plan.kernel(), plan.schedule().ToString());
    if (verdict) {
      fmt::print("verified {} rows against the f64 oracle: largest error / bound {:.3f}\n", verdict->rows,
                 verdict->worst);
    }
  }
  if (verdict && !verdict->ok()) {
    fmt::print(stderr, "attenio: {}\n", verdict->where);
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
  sub->add_option("--scale", o->scale, "Factor of the scores (default 1 / sqrt(dim))");
  sub->add_option("--softcap", o->softcap, "s = softcap tanh(s / softcap)");
  sub->add_option("--sinks", o->sinks, "One extra logit per query head");
  sub->add_option("--alibi", o->alibi, "One ALiBi slope per query head");
  sub->add_option("--heads", o->heads, "Query heads of 3-D tensors")->check(CLI::Range(int64_t{1}, INT64_MAX));
  sub->add_option("--kv-heads", o->kv_heads, "KV heads of 3-D tensors")->check(CLI::Range(int64_t{1}, INT64_MAX));
  sub->add_option("--dtype", o->dtype, "Convert q, k, v to f32, bf16 or f16 first");
  sub->add_option("--out-dtype", o->out_dtype, "Type of the result (default: that of q); f32 suits any");
  sub->add_option("--lse", o->lse, "Also write the log-sum-exp of every row");
  sub->add_flag("--explain", o->explain, "Print the plan: shape, machine, kernel, schedule, traffic");
  sub->add_flag("--verify", o->verify, "Compare with the f64 oracle; exit code 1 if out of bounds");
  sub->add_flag("--json", o->json, "One JSON object instead of text");
  o->run.AddTo(*sub);
  sub->callback([=] { *action = [=] { return Attend(*o); }; });
}

}  // namespace attenio::cli
