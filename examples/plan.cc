// For a runtime: plan once, keep the workspace, run every step with your own threads. Tensors are (batch, row, head, element),
// the layout of a packed QKV projection, used in place through strides.
#include <attenio/attention.h>

#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kHeads = 4, kLen = 300, kDim = 64, kWorkers = 2;

// Tasks of a phase may run in any order and at the same time; phases follow each other.
void RunOnOwnThreads(const attenio::Plan& plan, const attenio::Operands& operands, std::span<std::byte> workspace) {
  for (int64_t phase = 0; phase < plan.phases(); ++phase) {
    std::vector<std::thread> threads;
    for (int worker = 0; worker < kWorkers; ++worker) {
      threads.emplace_back([&, phase, worker] {
        for (int64_t task = worker; task < plan.tasks(phase); task += kWorkers) {
          const attenio::Status status = plan.RunTask(operands, workspace, phase, task, worker);
          if (!status.ok()) std::fprintf(stderr, "%s\n", status.message());
        }
      });
    }
    for (std::thread& t : threads) t.join();
  }
}

}  // namespace

int main() {
  // One projection holds q, k and v of a token side by side: 3 x heads x dim elements a row.
  std::vector<float> qkv(kLen * 3 * kHeads * kDim);
  for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(static_cast<float>(i));
  std::vector<float> out(kLen * kHeads * kDim), again(out.size());

  attenio::AttentionDesc desc;
  desc.q_heads = desc.kv_heads = kHeads;
  desc.q_len = desc.kv_len = kLen;
  desc.qk_dim = desc.v_dim = kDim;
  desc.causal = true;
  desc.q = desc.k = desc.v = {.batch = 0, .head = kDim, .row = 3 * kHeads * kDim};
  desc.out = {.batch = 0, .head = kDim, .row = kHeads * kDim};

  attenio::Options options;
  options.workers = kWorkers;
  const attenio::Result<attenio::Plan> plan = attenio::Plan::Create(desc, options);
  if (!plan.ok()) {
    std::fprintf(stderr, "%s\n", plan.status().message());
    return 1;
  }
  std::printf("%s", plan->Explain().c_str());

  std::vector<std::byte> workspace(plan->workspace_bytes());
  attenio::Operands operands{.q = qkv.data(), .k = qkv.data() + kHeads * kDim, .v = qkv.data() + 2 * kHeads * kDim, .out = out.data()};
  RunOnOwnThreads(*plan, operands, workspace);

  operands.out = again.data();
  const attenio::Status status = plan->Run(operands, workspace);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message());
    return 1;
  }
  std::printf("both ways give the same bits: %s\n", out == again ? "yes" : "no");
  return out == again ? 0 : 1;
}
