#include "api/explain.h"

#include <cstdarg>
#include <cstdio>

#include "base/math.h"

namespace attenio {
namespace {

__attribute__((format(printf, 2, 3))) void Line(std::string* out, const char* format, ...) {
  char line[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  *out += line;
  *out += '\n';
}

using ll = long long;

std::string Side(int64_t side) { return side == kUnbounded ? "unbounded" : std::to_string(side); }

void ExplainShape(const Problem& p, std::string* out) {
  const Shape& s = p.shape;
  Line(out, "shape      batch %lld, q_heads %lld, kv_heads %lld, q_len %lld, kv_len %lld, qk_dim %lld, v_dim %lld, %s -> %s", ll{s.batch}, ll{s.q_heads},
       ll{s.kv_heads}, ll{s.q_len}, ll{s.kv_len}, ll{s.qk_dim}, ll{s.v_dim}, Name(p.desc.dtype), Name(*p.desc.out_dtype));
  if (s.banded()) {
    Line(out, "band       offset %lld, keys to the left %s, to the right %s%s", ll{s.offset}, Side(s.left).c_str(), Side(s.right).c_str(),
         p.offsets.empty() ? "" : " (offsets per batch entry)");
  }
}

void ExplainMachine(const Machine& m, std::string* out) {
  std::string levels;
  for (const MemoryLevel& l : m.levels) {
    char text[96];
    if (l.bytes > 0) {
      std::snprintf(text, sizeof(text), "%s%s %.4g KiB/%lld-way", levels.empty() ? "" : ", ", l.name.c_str(), static_cast<double>(l.bytes) / 1024, ll{l.ways});
      levels += text;
    }
  }
  Line(out, "machine    %s, %lld cores: %s", m.name.c_str(), ll{m.cores}, levels.c_str());
}

}  // namespace

std::string ExplainProblem(const Problem& p, const Machine& machine, const std::string& rejected, const std::string& origin) {
  std::string out;
  ExplainShape(p, &out);
  ExplainMachine(machine, &out);
  const Quantum& q = p.kernel->quantum;
  Line(&out, "kernel     %s (%lld rows x %lld keys x %lld dims)%s%s", p.kernel->name, ll{q.rows}, ll{q.keys}, ll{q.dims}, rejected.empty() ? "" : "; passed over: ",
       rejected.c_str());
  Line(&out, "schedule   %s (%s)", p.schedule.ToString().c_str(), origin.c_str());
  Line(&out, "execution  %lld query tiles x %lld KV heads, waves of %lld heads, %d workers, workspace %.4g MiB", ll{p.tiles}, ll{p.heads}, ll{p.wave}, p.workers,
       static_cast<double>(p.workspace_bytes) / (1 << 20));
  return out;
}

}  // namespace attenio
