#include "api/explain.h"

#include <algorithm>
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
    if (l.bytes == 0) continue;
    const bool large = l.bytes >= 1 << 20;
    std::snprintf(text, sizeof(text), "%s%s %.4g %s", levels.empty() ? "" : ", ", l.name.c_str(), static_cast<double>(l.bytes) / (large ? 1 << 20 : 1 << 10),
                  large ? "MiB" : "KiB");
    levels += text;
    if (l.ways > 0) levels += " " + std::to_string(l.ways) + "-way";
  }
  Line(out, "machine    %s, %lld cores: %s", m.name.c_str(), ll{m.cores}, levels.c_str());
}

// Bytes across the outer boundary of the first schedule level, for the whole call, against the least that any schedule must move.
void ExplainTraffic(const Problem& p, const Machine& machine, std::string* out) {
  const LevelTile& tile = p.schedule.levels[0];
  const MemoryLevel* level = machine.Find(tile.level);
  constexpr int64_t kMostTiles = 1 << 20;  // the prediction visits each: about 0.1 s for these
  if (level == nullptr || p.tiles > kMostTiles || p.shape.rows() == 0 || p.shape.kv_len == 0) return;
  const double packed = static_cast<double>(p.kernel->k_row_bytes(p.shape.qk_dim)) / static_cast<double>(std::max<int64_t>(1, p.shape.qk_dim));
  const double heads = static_cast<double>(p.heads);
  const Traffic t = Predict(p.schedule, p.shape, 0, RowStats::kWrittenBack);
  const double bytes = heads * ((t.q + t.k + t.v) * packed + (t.out + t.scores + t.stats) * 4);
  const double words = static_cast<double>(level->bytes) / packed;
  const double bound = heads * packed * LowerBound(p.shape, words, BoundKind::kScoreOnce);
  const double pairs = heads * packed * LowerBound(p.shape, words, BoundKind::kPairsResident);
  Line(out, "traffic    %.4g MB across %s, %.2f times the lower bound (%s) and %.2f times that of fused schedules (%s); packing %.4g MB", bytes / 1e6,
       tile.level.c_str(), bytes / bound, Name(BoundKind::kScoreOnce), bytes / pairs, Name(BoundKind::kPairsResident),
       heads * packed * PackingWords(p.schedule, p.shape) / 1e6);
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
  ExplainTraffic(p, machine, &out);
  return out;
}

}  // namespace attenio
