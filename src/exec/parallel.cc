// The executors behind the Parallel hook. The only file of attenio that mentions OpenMP or starts threads.
#include "attenio/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#ifdef ATTENIO_HAVE_OPENMP
#include <omp.h>
#endif

#include "exec/openmp_limit.h"

namespace attenio {
namespace {

void RunSerial(void*, int64_t tasks, Parallel::Task task, void* argument) {
  for (int64_t i = 0; i < tasks; ++i) task(argument, i, 0);
}

#ifdef ATTENIO_HAVE_OPENMP
// Dynamic hand-out: causal tiles differ in cost, so a static split of rows would leave threads idle.
void RunOpenMP(void* context, int64_t tasks, Parallel::Task task, void* argument) {
  if (omp_in_parallel()) return RunSerial(nullptr, tasks, task, argument);
  const int workers = static_cast<int>(std::min<int64_t>(reinterpret_cast<intptr_t>(context), tasks));
  if (workers <= 1) return RunSerial(nullptr, tasks, task, argument);
#pragma omp parallel for schedule(dynamic, 1) num_threads(workers)
  for (int64_t i = 0; i < tasks; ++i) task(argument, i, omp_get_thread_num());
}
#endif

}  // namespace

Parallel SerialParallel() { return {RunSerial, nullptr, 1}; }

Parallel OpenMPParallel([[maybe_unused]] int workers) {
#ifdef ATTENIO_HAVE_OPENMP
  // The count is fixed here, because a worker id must stay below `workers` even if OpenMP's setting changes later.
  if (workers <= 0) workers = omp_get_max_threads();
  return {RunOpenMP, reinterpret_cast<void*>(static_cast<intptr_t>(workers)), workers};
#else
  return SerialParallel();
#endif
}

bool HasOpenMP() {
#ifdef ATTENIO_HAVE_OPENMP
  return true;
#else
  return false;
#endif
}

#ifdef ATTENIO_HAVE_OPENMP
OpenMPLimit::OpenMPLimit(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
OpenMPLimit::~OpenMPLimit() { omp_set_num_threads(before_); }
#else
OpenMPLimit::OpenMPLimit(int) : before_(0) {}
OpenMPLimit::~OpenMPLimit() = default;
#endif

struct ThreadPool::Impl {
  std::mutex turn;  // one run at a time
  std::mutex mutex;
  std::condition_variable wake, done;
  std::vector<std::thread> threads;
  int64_t generation = 0;
  int active = 0;
  bool stop = false;
  Parallel::Task task = nullptr;
  void* argument = nullptr;
  int64_t tasks = 0;
  std::atomic<int64_t> next{0};

  void Work(int worker) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) task(argument, i, worker);
  }

  void Loop(int worker) {
    int64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return stop || generation != seen; });
      if (stop) return;
      seen = generation;
      lock.unlock();
      Work(worker);
      lock.lock();
      if (--active == 0) done.notify_one();
    }
  }

  void Run(int64_t count, Parallel::Task f, void* f_argument) {
    const std::lock_guard my_turn(turn);
    {
      const std::lock_guard lock(mutex);
      task = f;
      argument = f_argument;
      tasks = count;
      next = 0;
      active = static_cast<int>(threads.size());
      ++generation;
    }
    wake.notify_all();
    Work(0);
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return active == 0; });
  }
};

namespace {
// The pool whose task this thread is running: a nested run is serial, a wait for itself would never end.
thread_local const void* running_pool = nullptr;
}  // namespace

ThreadPool::ThreadPool(int workers) : impl_(std::make_unique<Impl>()) {
  for (int w = 1; w < workers; ++w) {
    try {
      impl_->threads.emplace_back([this, w] {
        running_pool = impl_.get();
        impl_->Loop(w);
      });
    } catch (const std::system_error&) {
      break;  // the system gives no more threads: a smaller pool
    }
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->wake.notify_all();
  for (std::thread& t : impl_->threads) t.join();
}

Parallel ThreadPool::parallel() {
  const auto run = [](void* context, int64_t tasks, Parallel::Task task, void* argument) {
    auto* pool = static_cast<Impl*>(context);
    if (running_pool == pool) return RunSerial(nullptr, tasks, task, argument);
    const void* outer = std::exchange(running_pool, pool);
    pool->Run(tasks, task, argument);
    running_pool = outer;
  };
  return {run, impl_.get(), static_cast<int>(impl_->threads.size()) + 1};
}

DefaultExecutor::DefaultExecutor(int workers) : parallel_(OpenMPParallel(workers)) {
  if (HasOpenMP()) return;
  if (workers <= 0) workers = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  pool_ = std::make_unique<ThreadPool>(workers);
  parallel_ = pool_->parallel();
}

}  // namespace attenio
