// The hook through which attenio uses threads: "run tasks 0..n with worker ids". Nothing else in attenio knows threads.
#ifndef ATTENIO_PARALLEL_H_
#define ATTENIO_PARALLEL_H_

#include <cstdint>
#include <memory>

#include "attenio/export.h"

namespace attenio {

// `run` calls task(argument, i, worker) once for every i in 0..tasks, with worker in 0..workers and one thread at a time per
// worker id, and returns when all have ended. A plain value: copy it freely; `context` must outlive its use.
struct Parallel {
  using Task = void (*)(void* argument, int64_t index, int worker);
  void (*run)(void* context, int64_t tasks, Task task, void* argument) = nullptr;
  void* context = nullptr;
  int workers = 1;
};

// On the calling thread.
ATTENIO_API Parallel SerialParallel();

// OpenMP's threads (0 = as many as OpenMP would use); serial inside a parallel region. Serial in a build without OpenMP.
// OpenMP runtimes end the process where the system refuses a thread; a ThreadPool goes on with fewer.
ATTENIO_API Parallel OpenMPParallel(int workers = 0);
ATTENIO_API bool HasOpenMP();  // whether this build has it

// std::thread workers that sleep between runs. The calling thread is worker 0. Two threads that run on one pool take turns.
class ATTENIO_API ThreadPool {
 public:
  explicit ThreadPool(int workers);  // at least 1; fewer threads where the system refuses more
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  Parallel parallel();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The threads that a call without an executor gets: OpenMP's, or std::thread workers of its own in a build without OpenMP
// (0 = as many as OpenMP would use, or one per hardware thread).
class ATTENIO_API DefaultExecutor {
 public:
  explicit DefaultExecutor(int workers = 0);
  Parallel parallel() const { return parallel_; }
  int workers() const { return parallel_.workers; }

 private:
  std::unique_ptr<ThreadPool> pool_;
  Parallel parallel_;
};

}  // namespace attenio

#endif  // ATTENIO_PARALLEL_H_
