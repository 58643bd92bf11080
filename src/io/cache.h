// A set-associative LRU cache of lines, and a stack of them: write-allocate, write-back, each level asked only when the one
// inside it misses.
#ifndef ATTENIO_SRC_IO_CACHE_H_
#define ATTENIO_SRC_IO_CACHE_H_

#include <cstdint>
#include <vector>

#include "attenio/io.h"

namespace attenio::io {

class Cache {
 public:
  Cache(int64_t bytes, int64_t ways, int64_t line_bytes);

  struct Result {
    bool hit = false;
    uint64_t evicted = 0;  // the dirty line that had to leave, 0: none
  };
  // Lines are numbers from 1 below 2^62; the number alone decides the set.
  Result Access(uint64_t line, bool write);

 private:
  static constexpr uint64_t kDirty = uint64_t{1} << 63;
  uint64_t sets_;
  int64_t ways_;
  std::vector<uint64_t> lines_;  // per set, most recently used first; 0: free
};

class CacheStack {
 public:
  // The levels of `machine` that have ways, innermost first, as `workers` threads see them: threads that share an instance have
  // their shares of it together, the others have instances of their own.
  explicit CacheStack(const Machine& machine, int64_t workers = 1);

  bool empty() const { return caches_.empty(); }
  // A piece of memory for one operand, aligned to `alignment` bytes, a page unless said.
  int64_t Allocate(int64_t bytes, Operand operand, int64_t alignment = 4096);
  // The worker whose accesses follow, 0 at first.
  void Use(int64_t worker) { worker_ = worker; }
  // Reads or writes bytes [begin, begin + bytes), in ascending order.
  void Touch(int64_t begin, int64_t bytes, bool write);

  const std::vector<LineTraffic>& traffic() const { return traffic_; }

 private:
  void Access(size_t level, uint64_t line, bool write, bool whole_line);
  Operand OwnerOf(uint64_t line) const;

  struct Region {
    uint64_t first_line;
    Operand operand;
  };
  struct Level {
    std::vector<Cache> instances;
    int64_t sharers;
  };
  std::vector<Level> caches_;
  std::vector<LineTraffic> traffic_;
  std::vector<Region> regions_;
  int64_t worker_ = 0;
  int64_t line_bytes_ = 64;
  int64_t next_ = 1 << 20;
};

}  // namespace attenio::io

#endif  // ATTENIO_SRC_IO_CACHE_H_
