// The C API on top of the C++ one: copies structs field by field, respecting the caller's struct_size.
#include "attenio/attenio.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "attenio/attention.h"

struct attenio_plan {
  attenio::Plan plan;
};

namespace attenio {
namespace {

attenio_code Report(const Status& status, attenio_error* error) {
  if (error != nullptr) {
    error->code = static_cast<attenio_code>(status.code());
    std::memcpy(error->message, status.message(), sizeof(error->message));
  }
  return static_cast<attenio_code>(status.code());
}
static_assert(sizeof(attenio_error::message) == Status::kMessageBytes);

// The caller's struct over the defaults: an older caller's shorter struct leaves the newer fields at their defaults.
template <class T>
Result<T> Read(const char* name, const T* given, T defaults) {
  if (given == nullptr) return Status::Error(Code::kInvalidArgument, "%s is null", name);
  if (given->struct_size < sizeof(size_t)) {
    return Status::Error(Code::kInvalidArgument, "%s.struct_size is %zu, expected %zu (call attenio_%s_init)", name, given->struct_size, sizeof(T), name);
  }
  std::memcpy(static_cast<void*>(&defaults), given, std::min(given->struct_size, sizeof(T)));
  return defaults;
}

attenio_desc DefaultDesc() {
  constexpr attenio_strides kStrides = {kContiguous, kContiguous, kContiguous, 1};
  attenio_desc d = {};
  d.struct_size = sizeof(d);
  d.batch = d.q_heads = d.kv_heads = 1;
  d.out_dtype = d.mask_dtype = ATTENIO_NONE;
  d.q = d.k = d.v = d.out = d.lse_strides = kStrides;
  d.window_left = d.window_right = kUnbounded;
  d.mask_key = 1;
  d.mask_kv_len = -1;
  return d;
}

attenio_options DefaultOptions() {
  attenio_options o = {};
  o.struct_size = sizeof(o);
  return o;
}

attenio_operands DefaultOperands() {
  attenio_operands o = {};
  o.struct_size = sizeof(o);
  return o;
}

attenio_executor DefaultExecutorStruct() {
  attenio_executor e = {};
  e.struct_size = sizeof(e);
  e.workers = 1;
  return e;
}

Strides ToStrides(const attenio_strides& s) { return {s.batch, s.head, s.row, s.element}; }

std::optional<DType> ToDType(attenio_dtype t) {
  if (t == ATTENIO_NONE) return std::nullopt;
  return static_cast<DType>(t);
}

Status CheckDType(const char* name, attenio_dtype t, attenio_dtype lowest, attenio_dtype highest) {
  if (t >= lowest && t <= highest) return {};
  return Status::Error(Code::kInvalidArgument, "%s is %d, expected %d..%d", name, static_cast<int>(t), static_cast<int>(lowest), static_cast<int>(highest));
}

Result<AttentionDesc> ToDesc(const attenio_desc& c) {
  if (Status s = CheckDType("dtype", c.dtype, ATTENIO_F32, ATTENIO_F16); !s.ok()) return s;
  if (Status s = CheckDType("out_dtype", c.out_dtype, ATTENIO_NONE, ATTENIO_F16); !s.ok()) return s;
  if (Status s = CheckDType("mask_dtype", c.mask_dtype, ATTENIO_NONE, ATTENIO_BOOL); !s.ok()) return s;
  AttentionDesc d;
  d.batch = c.batch;
  d.q_heads = c.q_heads;
  d.kv_heads = c.kv_heads;
  d.q_len = c.q_len;
  d.kv_len = c.kv_len;
  d.qk_dim = c.qk_dim;
  d.v_dim = c.v_dim;
  d.dtype = static_cast<DType>(c.dtype);
  d.out_dtype = ToDType(c.out_dtype);
  d.q = ToStrides(c.q);
  d.k = ToStrides(c.k);
  d.v = ToStrides(c.v);
  d.out = ToStrides(c.out);
  if (c.has_scale != 0) d.scale = c.scale;
  d.softcap = c.softcap;
  d.mask = {ToDType(c.mask_dtype), c.mask_batch, c.mask_head, c.mask_query, c.mask_key, c.mask_kv_len};
  d.causal = c.causal != 0;
  d.window_left = c.window_left;
  d.window_right = c.window_right;
  d.offset = c.offset;
  d.offsets = c.offsets;
  d.kv_lens = c.kv_lens;
  d.alibi = c.alibi != 0;
  d.sinks = c.sinks != 0;
  d.lse = c.lse != 0;
  d.lse_strides = ToStrides(c.lse_strides);
  return d;
}

Result<AttentionDesc> ReadDesc(const attenio_desc* desc) {
  const Result<attenio_desc> c = Read("desc", desc, DefaultDesc());
  if (!c.ok()) return c.status();
  return ToDesc(*c);
}

Result<Operands> ReadOperands(const attenio_operands* operands) {
  const Result<attenio_operands> c = Read("operands", operands, DefaultOperands());
  if (!c.ok()) return c.status();
  return Operands{c->q, c->k, c->v, c->out, c->mask, c->alibi, c->sinks, c->lse};
}

// Nothing may throw into C: what the standard library throws here is lack of memory.
template <class F>
attenio_code Guard(attenio_error* error, F&& body) {
  try {
    return Report(body(), error);
  } catch (const std::bad_alloc&) {
    return Report(Status::Error(Code::kOutOfMemory, "no memory"), error);
  } catch (...) {
    return Report(Status::Error(Code::kUnsupported, "the system refused a resource (threads?)"), error);
  }
}

template <class T>
void Init(T* target, size_t struct_size, T defaults) {
  if (target == nullptr) return;
  defaults.struct_size = std::min(struct_size, sizeof(T));
  std::memcpy(static_cast<void*>(target), &defaults, defaults.struct_size);
}

}  // namespace
}  // namespace attenio

using attenio::Code;
using attenio::Status;

void attenio_desc_init(attenio_desc* desc, size_t struct_size) { attenio::Init(desc, struct_size, attenio::DefaultDesc()); }
void attenio_options_init(attenio_options* options, size_t struct_size) { attenio::Init(options, struct_size, attenio::DefaultOptions()); }
void attenio_operands_init(attenio_operands* operands, size_t struct_size) { attenio::Init(operands, struct_size, attenio::DefaultOperands()); }
void attenio_executor_init(attenio_executor* executor, size_t struct_size) {
  attenio::Init(executor, struct_size, attenio::DefaultExecutorStruct());
}

attenio_code attenio_plan_create(const attenio_desc* desc, const attenio_options* options, attenio_plan** plan, attenio_error* error) {
  return attenio::Guard(error, [&]() -> Status {
    if (plan == nullptr) return Status::Error(Code::kInvalidArgument, "plan is null");
    *plan = nullptr;
    const auto d = attenio::ReadDesc(desc);
    if (!d.ok()) return d.status();
    attenio::Options cpp;
    if (options != nullptr) {
      const auto o = attenio::Read("options", options, attenio::DefaultOptions());
      if (!o.ok()) return o.status();
      if (o->kernel != nullptr) cpp.kernel = o->kernel;
      if (o->schedule != nullptr) cpp.schedule = o->schedule;
      cpp.workers = o->workers;
    }
    auto created = attenio::Plan::Create(*d, cpp);
    if (!created.ok()) return created.status();
    *plan = new attenio_plan{std::move(created).value()};
    return {};
  });
}

void attenio_plan_destroy(attenio_plan* plan) { delete plan; }

size_t attenio_workspace_bytes(const attenio_plan* plan) { return plan == nullptr ? 0 : plan->plan.workspace_bytes(); }

size_t attenio_explain(const attenio_plan* plan, char* text, size_t size) {
  std::string s;
  attenio::Guard(nullptr, [&]() -> Status {
    if (plan != nullptr) s = plan->plan.Explain();
    return {};
  });
  if (text != nullptr && size > 0) {
    const size_t n = std::min(size - 1, s.size());
    std::memcpy(text, s.data(), n);
    text[n] = 0;
  }
  return s.size();
}

attenio_code attenio_run(const attenio_plan* plan, const attenio_operands* operands, void* workspace, size_t workspace_bytes,
                         const attenio_executor* executor, attenio_error* error) {
  return attenio::Guard(error, [&]() -> Status {
    if (plan == nullptr) return Status::Error(Code::kInvalidArgument, "plan is null");
    const auto o = attenio::ReadOperands(operands);
    if (!o.ok()) return o.status();
    attenio::Parallel parallel = attenio::SerialParallel();
    if (executor != nullptr) {
      const auto e = attenio::Read("executor", executor, attenio::DefaultExecutorStruct());
      if (!e.ok()) return e.status();
      parallel = {e->run, e->context, e->workers};
    }
    return plan->plan.Run(*o, {static_cast<std::byte*>(workspace), workspace_bytes}, parallel);
  });
}

int64_t attenio_phases(const attenio_plan* plan) { return plan == nullptr ? 0 : plan->plan.phases(); }
int64_t attenio_tasks(const attenio_plan* plan, int64_t phase) { return plan == nullptr ? 0 : plan->plan.tasks(phase); }

attenio_code attenio_run_task(const attenio_plan* plan, const attenio_operands* operands, void* workspace, size_t workspace_bytes, attenio_task_id id,
                              attenio_error* error) {
  return attenio::Guard(error, [&]() -> Status {
    if (plan == nullptr) return Status::Error(Code::kInvalidArgument, "plan is null");
    const auto o = attenio::ReadOperands(operands);
    if (!o.ok()) return o.status();
    return plan->plan.RunTask(*o, {static_cast<std::byte*>(workspace), workspace_bytes}, id.phase, id.task, id.worker);
  });
}

attenio_code attenio_attend(const attenio_desc* desc, const attenio_operands* operands, attenio_error* error) {
  return attenio::Guard(error, [&]() -> Status {
    const auto d = attenio::ReadDesc(desc);
    if (!d.ok()) return d.status();
    const auto o = attenio::ReadOperands(operands);
    if (!o.ok()) return o.status();
    return attenio::Attend(*d, *o);
  });
}

const char* attenio_version(void) {
#define ATTENIO_TEXT_(x) #x
#define ATTENIO_TEXT(x) ATTENIO_TEXT_(x)
  return ATTENIO_TEXT(ATTENIO_VERSION_MAJOR) "." ATTENIO_TEXT(ATTENIO_VERSION_MINOR) "." ATTENIO_TEXT(ATTENIO_VERSION_PATCH);
}
