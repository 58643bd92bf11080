#include "unfused/onednn.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/math.h"
#include "exec/openmp_limit.h"
#include "exec/workspace.h"
#include "unfused/stage.h"

namespace attenio::unfused {

#ifndef ATTENIO_HAVE_ONEDNN

struct OneDnnPlan::Impl {
  std::string kernel;
};

std::string OneDnnVersion() { return ""; }
Result<OneDnnPlan> OneDnnPlan::Create(const AttentionDesc&, const Options&) {
  return Status::Error(Code::kUnsupported, "this build has no oneDNN");
}
size_t OneDnnPlan::workspace_bytes() const { return 0; }
Status OneDnnPlan::Run(const Operands&, std::span<std::byte>, const Parallel&) const {
  return Status::Error(Code::kUnsupported, "this build has no oneDNN");
}
const std::string& OneDnnPlan::kernel() const { return impl_->kernel; }
DType OneDnnPlan::probability_type() const { return DType::kF32; }

#else

namespace {

using dnnl::memory;

// Scores of a chunk. 256 rows at 4096 keys: smaller chunks stay in L2, but oneDNN packs K and V again for each of them, and were
// up to 1.25 times slower (bench/unfused_bench).
constexpr int64_t kScoreBytes = int64_t{4} << 20;

// What stands against the description; null when nothing does.
const char* Obstacle(const AttentionDesc& d) {
  if (!HasOpenMP()) return "oneDNN runs on OpenMP's threads, this build has none";
  if (d.dtype != DType::kF32 && d.dtype != DType::kBF16) return "the oneDNN baseline takes f32 and bf16";
  if (d.softcap != 0) return "the oneDNN baseline has no softcap";
  if (d.window_left != kUnbounded || d.window_right != kUnbounded) return "the oneDNN baseline has no windows";
  if (d.alibi || d.sinks || d.lse) return "the oneDNN baseline has no ALiBi, sinks or lse";
  if (d.offsets != nullptr || d.kv_lens != nullptr) return "the oneDNN baseline has no lengths per batch entry";
  if (d.mask.dtype && (*d.mask.dtype != DType::kF32 || d.mask.key != 1 || d.mask.kv_len < d.kv_len)) {
    return "the oneDNN baseline takes f32 masks of all keys, without a stride between keys";
  }
  if (d.q.element != 1 || d.k.element != 1 || d.v.element != 1 || d.out.element != 1) {
    return "the oneDNN baseline takes tensors without a stride between the elements of a row";
  }
  if (d.batch * d.q_heads * d.q_len == 0 || d.kv_len == 0 || d.qk_dim == 0 || d.v_dim == 0) {
    return "the oneDNN baseline takes no empty tensors";
  }
  if (d.causal && d.offset < 0) return "the oneDNN baseline takes no rows without a key";
  return nullptr;
}

// Addresses of one head's tensors.
struct Head {
  const std::byte *q, *k, *v, *mask;
  std::byte* out;
};

// A worker's part of the workspace.
struct Space {
  int64_t scores = 0, weights = 0, scratch = 0, size = 0;
};

memory::dim Bytes(const memory::desc& desc) { return static_cast<memory::dim>(desc.get_size()); }

}  // namespace

struct OneDnnPlan::Impl {
  AttentionDesc desc;
  std::string kernel;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  int workers = 1;
  int64_t heads = 0;       // per batch entry: query heads, or KV heads when the rows of a group are one matrix
  int64_t group = 1;       // query heads that share a KV head and are not folded into rows
  int64_t head_rows = 0;   // rows of such a head
  int64_t chunk_rows = 0;
  int64_t chunks = 0;
  std::map<std::pair<int64_t, int64_t>, Stage> stages;  // by rows and keys
  Space space;

  Range Rows(int64_t chunk) const { return {chunk * chunk_rows, std::min(head_rows, (chunk + 1) * chunk_rows)}; }

  // Keys that some row of the chunk may attend.
  int64_t Keys(Range rows) const {
    return desc.causal ? std::min(desc.kv_len, SaturatingAdd(rows.end, desc.offset)) : desc.kv_len;
  }

  void Divide(int64_t rows) {
    const AttentionDesc& d = desc;
    const int64_t shared = d.q_heads / d.kv_heads;
    const bool adjacent = d.q.head == d.q_len * d.q.row && d.out.head == d.q_len * d.out.row;
    const bool fold = shared == 1 || (adjacent && !d.causal && !d.mask.dtype);
    heads = fold ? d.kv_heads : d.q_heads;
    group = fold ? 1 : shared;
    head_rows = fold ? shared * d.q_len : d.q_len;
    chunk_rows = rows > 0 ? rows : std::clamp<int64_t>(kScoreBytes / 4 / d.kv_len / 32 * 32, 32, 512);
    chunk_rows = std::min(chunk_rows, head_rows);
    chunks = CeilDiv(head_rows, chunk_rows);
  }

  void MakeStages() {
    const AttentionDesc& d = desc;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const Range rows = Rows(chunk);
      const int64_t keys = Keys(rows);
      if (stages.contains({rows.size(), keys})) continue;
      StageShape shape{.rows = rows.size(), .keys = keys, .qk_dim = d.qk_dim, .v_dim = d.v_dim, .q_row = d.q.row,
                       .k_row = d.k.row, .v_row = d.v.row, .out_row = d.out.row, .type = d.dtype,
                       .out_type = *d.out_dtype, .scale = static_cast<float>(*d.scale)};
      if (d.mask.dtype) shape.mask_row = d.mask.query;
      stages.emplace(std::pair{rows.size(), keys}, MakeStage(engine, shape));
    }
  }

  void SizeSpace() {
    int64_t scores = 0, weights = 0, scratch = 0;
    for (const auto& [key, stage] : stages) {
      scores = std::max(scores, Bytes(stage.scores));
      weights = std::max(weights, Bytes(stage.weights));
      scratch = std::max({scratch, Bytes(stage.qk_scratch), Bytes(stage.softmax_scratch), Bytes(stage.pv_scratch)});
    }
    WorkspaceSizer sizer;
    space.scores = sizer.Take(scores, 1);
    space.weights = desc.dtype == DType::kF32 ? space.scores : sizer.Take(weights, 1);
    space.scratch = sizer.Take(scratch, 1);
    space.size = sizer.size();
  }

  Head At(const Operands& o, int64_t batch, int64_t head) const {
    const AttentionDesc& d = desc;
    const int64_t folded = heads == d.q_heads ? 1 : d.q_heads / d.kv_heads;  // query heads of `head`
    const int64_t kv = head / group, bytes = ElementBytes(d.dtype);
    const auto in = [&](const void* base, const Strides& s, int64_t h) {
      return static_cast<const std::byte*>(base) + (batch * s.batch + h * s.head) * bytes;
    };
    const int64_t mask = batch * d.mask.batch + head * d.mask.head;
    return {.q = in(o.q, d.q, head * folded), .k = in(o.k, d.k, kv), .v = in(o.v, d.v, kv),
            .mask = d.mask.dtype ? static_cast<const std::byte*>(o.mask) + mask * 4 : nullptr,
            .out = static_cast<std::byte*>(o.out) +
                   (batch * d.out.batch + head * folded * d.out.head) * ElementBytes(*d.out_dtype)};
  }

  // Later keys of the rows that see only a part of the chunk's.
  void ExcludeFuture(Range rows, int64_t keys, float* scores) const {
    for (int64_t i = rows.begin; i < rows.end; ++i, scores += keys) {
      const int64_t seen = std::min(keys, SaturatingAdd(i + 1, desc.offset));
      std::fill(scores + seen, scores + keys, -std::numeric_limits<float>::infinity());
    }
  }

  void RunTask(const Operands& operands, std::byte* workspace, int64_t task) const {
    const Range rows = Rows(chunks - 1 - task % chunks);  // causal: the longest first
    const int64_t keys = Keys(rows), head = task / chunks % heads, batch = task / chunks / heads;
    const Stage& s = stages.at({rows.size(), keys});
    const Head at = At(operands, batch, head);
    const auto memory_of = [&](const memory::desc& desc_of, const void* data) {
      return memory(desc_of, engine, const_cast<void*>(data));
    };
    const int64_t bytes = ElementBytes(desc.dtype);
    std::byte* scratch = workspace + space.scratch;
    const memory scores = memory_of(s.scores, workspace + space.scores);
    const memory weights = memory_of(s.weights, workspace + space.weights);
    dnnl::stream stream(engine);
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, memory_of(s.q, at.q + rows.begin * desc.q.row * bytes)},
                                              {DNNL_ARG_WEIGHTS, memory_of(s.k, at.k)},
                                              {DNNL_ARG_DST, scores},
                                              {DNNL_ARG_SCRATCHPAD, memory_of(s.qk_scratch, scratch)}};
    if (at.mask != nullptr) {
      arguments.insert({s.mask_argument,
                        memory_of(s.mask, at.mask + rows.begin * desc.mask.query * 4)});
    }
    s.qk.execute(stream, arguments);
    if (desc.causal) ExcludeFuture(rows, keys, reinterpret_cast<float*>(workspace + space.scores));
    s.softmax.execute(stream, {{DNNL_ARG_SRC, scores}, {DNNL_ARG_DST, weights},
                               {DNNL_ARG_SCRATCHPAD, memory_of(s.softmax_scratch, scratch)}});
    std::byte* out = at.out + rows.begin * desc.out.row * ElementBytes(*desc.out_dtype);
    s.pv.execute(stream, {{DNNL_ARG_SRC, weights}, {DNNL_ARG_WEIGHTS, memory_of(s.v, at.v)},
                          {DNNL_ARG_DST, memory_of(s.out, out)},
                          {DNNL_ARG_SCRATCHPAD, memory_of(s.pv_scratch, scratch)}});
    stream.wait();
  }
};

std::string OneDnnVersion() {
  const dnnl::version_t* v = dnnl::version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

Result<OneDnnPlan> OneDnnPlan::Create(const AttentionDesc& desc, const Options& options) {
  if (const char* obstacle = Obstacle(desc)) return Status::Error(Code::kUnsupported, "%s", obstacle);
  const OpenMPLimit one_thread(1);  // primitives are divided for the threads that they find when they are made
  try {
    auto impl = std::make_shared<Impl>();
    impl->desc = desc;
    impl->workers = std::max(1, options.workers);
    impl->Divide(options.rows);
    impl->MakeStages();
    impl->SizeSpace();
    const Stage& first = impl->stages.at({impl->Rows(0).size(), impl->Keys(impl->Rows(0))});
    impl->kernel = "onednn " + OneDnnVersion() + " rows " + std::to_string(impl->chunk_rows);
    impl->kernel.append(", ").append(first.implementations);
    return OneDnnPlan(std::move(impl));
  } catch (const dnnl::error& error) {
    return Status::Error(Code::kUnsupported, "oneDNN: %s", error.what());
  } catch (const std::bad_alloc&) {
    return Status::Error(Code::kOutOfMemory, "no memory for the oneDNN primitives");
  }
}

size_t OneDnnPlan::workspace_bytes() const {
  return static_cast<size_t>(impl_->space.size * impl_->workers + WorkspaceSizer::kAlignment);
}

Status OneDnnPlan::Run(const Operands& operands, std::span<std::byte> workspace, const Parallel& parallel) const {
  if (workspace.size() < workspace_bytes()) {
    return Status::Error(Code::kWorkspaceTooSmall, "workspace has %zu bytes, needs %zu", workspace.size(), workspace_bytes());
  }
  if (parallel.workers > impl_->workers) {
    return Status::Error(Code::kInvalidArgument, "the executor has %d workers, the plan %d", parallel.workers, impl_->workers);
  }
  struct Call {
    const Impl& impl;
    const Operands& operands;
    std::byte* space;
    std::atomic<bool> failed{false};
  };
  const auto address = reinterpret_cast<uintptr_t>(workspace.data());
  const auto gap = RoundUp(static_cast<int64_t>(address), WorkspaceSizer::kAlignment) - static_cast<int64_t>(address);
  Call call{*impl_, operands, workspace.data() + gap};
  const auto task = [](void* argument, int64_t index, int worker) {
    auto* c = static_cast<Call*>(argument);
    try {
      const OpenMPLimit one_thread(1);  // the serial executor calls from outside of a parallel region
      c->impl.RunTask(c->operands, c->space + worker * c->impl.space.size, index);
    } catch (const std::exception&) {
      c->failed = true;
    }
  };
  parallel.run(parallel.context, impl_->desc.batch * impl_->heads * impl_->chunks, task, &call);
  if (call.failed) return Status::Error(Code::kOutOfMemory, "oneDNN failed to run its primitives");
  return {};
}

const std::string& OneDnnPlan::kernel() const { return impl_->kernel; }
DType OneDnnPlan::probability_type() const { return impl_->desc.dtype; }

#endif  // ATTENIO_HAVE_ONEDNN

}  // namespace attenio::unfused
