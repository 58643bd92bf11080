#include "io/cache.h"

#include <algorithm>

#include "base/math.h"
#include "io/capacity.h"

namespace attenio::io {

Cache::Cache(int64_t bytes, int64_t ways, int64_t line_bytes) : ways_(ways) {
  sets_ = static_cast<uint64_t>(std::max<int64_t>(1, bytes / line_bytes / ways));
  lines_.assign(sets_ * static_cast<uint64_t>(ways), 0);
}

Cache::Result Cache::Access(uint64_t line, bool write) {
  uint64_t* const set = lines_.data() + line % sets_ * static_cast<uint64_t>(ways_);
  const uint64_t dirty = write ? kDirty : 0;
  int64_t way = 0;
  while (way < ways_ && (set[way] & ~kDirty) != line) ++way;
  Result result;
  result.hit = way < ways_;
  if (!result.hit) {
    way = ways_ - 1;
    if (set[way] & kDirty) result.evicted = set[way] & ~kDirty;
    set[way] = line;
  }
  const uint64_t entry = set[way] | dirty;
  for (; way > 0; --way) set[way] = set[way - 1];
  set[0] = entry;
  return result;
}

CacheStack::CacheStack(const Machine& machine, int64_t workers) {
  for (const MemoryLevel& l : machine.levels) {
    if (l.ways <= 0 || l.bytes <= 0) continue;
    if (caches_.empty() && l.line_bytes > 0) line_bytes_ = l.line_bytes;
    const int64_t sharers = std::max<int64_t>(1, l.sharers), together = std::min(workers, sharers);
    const Cache instance(l.bytes / sharers * together, l.ways, line_bytes_);
    caches_.push_back({std::vector<Cache>(static_cast<size_t>(CeilDiv(workers, sharers)), instance), sharers});
    LineTraffic t;
    t.level = l.name;
    t.line_bytes = line_bytes_;
    traffic_.push_back(t);
  }
}

int64_t CacheStack::Allocate(int64_t bytes, Operand operand, int64_t alignment) {
  const int64_t at = RoundUp(next_, std::max(alignment, line_bytes_));
  regions_.push_back({static_cast<uint64_t>(at / line_bytes_), operand});
  next_ = RoundUp(at + std::max<int64_t>(bytes, 1), line_bytes_);
  return at;
}

Operand CacheStack::OwnerOf(uint64_t line) const {
  const auto after = std::upper_bound(regions_.begin(), regions_.end(), line,
                                      [](uint64_t l, const Region& r) { return l < r.first_line; });
  return std::prev(after)->operand;
}

void CacheStack::Touch(int64_t begin, int64_t bytes, bool write) {
  if (bytes <= 0) return;
  const auto last = static_cast<uint64_t>((begin + bytes - 1) / line_bytes_);
  for (auto line = static_cast<uint64_t>(begin / line_bytes_); line <= last; ++line) Access(0, line, write, false);
}

// `whole_line`: a line written back from inside needs no fetch.
void CacheStack::Access(size_t level, uint64_t line, bool write, bool whole_line) {
  Level& l = caches_[level];
  const Cache::Result r = l.instances[static_cast<size_t>(worker_ / l.sharers)].Access(line, write);
  if (r.hit) return;
  LineTraffic& t = traffic_[level];
  if (r.evicted != 0) {
    ++t.writebacks[static_cast<int>(OwnerOf(r.evicted))];
    if (level + 1 < caches_.size()) Access(level + 1, r.evicted, true, true);
  }
  if (whole_line) return;
  ++t.fills[static_cast<int>(OwnerOf(line))];
  if (level + 1 < caches_.size()) Access(level + 1, line, false, false);
}

}  // namespace attenio::io

namespace attenio {

const char* Name(Operand operand) {
  switch (operand) {
    case Operand::kQ:
      return "q";
    case Operand::kK:
      return "k";
    case Operand::kV:
      return "v";
    case Operand::kOut:
      return "out";
    case Operand::kScores:
      return "scores";
    case Operand::kStats:
      return "stats";
    case Operand::kCount:
      break;
  }
  return "";
}

int64_t LineTraffic::total_fills() const {
  int64_t sum = 0;
  for (const int64_t x : fills) sum += x;
  return sum;
}

int64_t LineTraffic::total_bytes() const {
  int64_t sum = total_fills();
  for (const int64_t x : writebacks) sum += x;
  return sum * line_bytes;
}

}  // namespace attenio
