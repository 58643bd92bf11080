// The memory hierarchy of this computer. Sizes come from hwloc where built in, from /sys on Linux otherwise; what
// neither tells is filled with common sizes, so that detection never fails. Rates stay 0: `attenio calibrate` measures
// them.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "attenio/io.h"

#if ATTENIO_HAVE_HWLOC
#include <hwloc.h>
#endif

namespace attenio {
namespace {

struct Caches {
  MemoryLevel level[3];  // L1, L2, LLC; bytes = 0: not found
  int64_t cores = 0;
};

#if ATTENIO_HAVE_HWLOC
// The caches above the first hardware thread that this process may use.
Caches ReadCaches() {
  Caches c;
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return c;
  if (hwloc_topology_load(topology) == 0) {
    c.cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    for (hwloc_obj_t o = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, 0); o != nullptr; o = o->parent) {
      if (!hwloc_obj_type_is_dcache(o->type) || o->attr == nullptr) continue;
      const unsigned depth = o->attr->cache.depth;
      if (depth < 1 || depth > 3) continue;
      MemoryLevel& l = c.level[depth - 1];
      l.bytes = static_cast<int64_t>(o->attr->cache.size);
      l.line_bytes = o->attr->cache.linesize;
      const int ways = o->attr->cache.associativity;  // -1: fully associative, 0: unknown
      l.ways = ways > 0 ? ways : 0;
      if (ways < 0 && l.line_bytes > 0) l.ways = l.bytes / l.line_bytes;
      l.sharers = hwloc_bitmap_weight(o->cpuset);
    }
  }
  hwloc_topology_destroy(topology);
  return c;
}
#else
std::string ReadWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

int64_t ReadNumber(const std::string& path) {
  const std::string word = ReadWord(path);
  int64_t value = 0;
  for (const char ch : word) {
    if (ch >= '0' && ch <= '9' && value < INT64_MAX / 16) {
      value = value * 10 + (ch - '0');
    } else {
      return ch == 'K' ? value << 10 : ch == 'M' ? value << 20 : value;
    }
  }
  return value;
}

// Hardware threads in a list such as "0-3,8".
int64_t CountList(const std::string& list) {
  int64_t count = 0, from = -1, number = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    const char ch = i < list.size() ? list[i] : ',';
    if (ch >= '0' && ch <= '9') {
      number = number * 10 + (ch - '0');
    } else if (ch == '-') {
      from = number;
      number = 0;
    } else if (ch == ',') {
      count += from >= 0 ? number - from + 1 : 1;
      from = -1;
      number = 0;
    }
  }
  return count;
}

Caches ReadCaches() {
  Caches c;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string type = ReadWord(folder + "type");
    const int64_t depth = ReadNumber(folder + "level");
    if ((type != "Data" && type != "Unified") || depth < 1 || depth > 3) continue;
    MemoryLevel& l = c.level[depth - 1];
    l.bytes = ReadNumber(folder + "size");
    l.ways = ReadNumber(folder + "ways_of_associativity");
    l.line_bytes = ReadNumber(folder + "coherency_line_size");
    l.sharers = CountList(ReadWord(folder + "shared_cpu_list"));
  }
  return c;
}
#endif

int64_t UsableCpus() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max<int64_t>(1, sysconf(_SC_NPROCESSORS_ONLN));
}

// Bytes of the vector registers of the widest instruction set that the kernels use.
int64_t VectorRegisterBytes() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return 32 * 64;
  if (__builtin_cpu_supports("avx2")) return 16 * 32;
  return 16 * 16;
#else
  return 32 * 16;  // NEON, VSX
#endif
}

std::string ProcessorName() {
#ifdef __linux__
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
#endif
  return "this computer";
}

// Hypervisors report the caches of a whole socket as one that the guest's few threads have to themselves (508 MiB for two threads
// has been seen). No processor gives a core more than 32 MiB of last-level cache (EPYC 9175F: 512 MiB for 16 cores), so more than
// that for each thread is not believed.
constexpr int64_t kMostSharedBytesPerThread = int64_t{32} << 20;

Machine Detect() {
  const Caches found = ReadCaches();
  const char* const names[3] = {"L1", "L2", "LLC"};
  const int64_t common_bytes[3] = {32 * 1024, 512 * 1024, 0};  // where the system does not tell
  Machine m;
  m.name = ProcessorName();
  const int64_t cpus = UsableCpus();
  m.cores = found.cores > 0 ? std::min(found.cores, cpus) : cpus;
  MemoryLevel registers;
  registers.name = "reg";
  registers.bytes = VectorRegisterBytes();
  m.levels.push_back(registers);
  for (int i = 0; i < 3; ++i) {
    MemoryLevel l = found.level[i];
    l.name = names[i];
    if (l.bytes <= 0) l.bytes = common_bytes[i];
    if (l.bytes <= 0) continue;
    if (l.ways <= 0) l.ways = 8;
    if (l.line_bytes <= 0) l.line_bytes = 64;
    l.sharers = std::max<int64_t>(1, l.sharers);
    if (i == 2) l.bytes = std::min(l.bytes, kMostSharedBytesPerThread * l.sharers);
    m.levels.push_back(l);
  }
  MemoryLevel memory;
  memory.name = "memory";
  memory.sharers = cpus;
  m.levels.push_back(memory);
  return m;
}

}  // namespace

const Machine& ThisMachine() {
  static const Machine machine = Detect();
  return machine;
}

}  // namespace attenio
