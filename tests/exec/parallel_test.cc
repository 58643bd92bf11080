#include "attenio/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace attenio {
namespace {

struct Tally {
  std::vector<std::atomic<int>> calls;
  std::vector<std::atomic<int>> busy;  // per worker id: threads inside at once
  std::atomic<bool> shared{false};
  Tally(int64_t tasks, int workers) : calls(static_cast<size_t>(tasks)), busy(static_cast<size_t>(workers)) {}
};

void Count(void* argument, int64_t index, int worker) {
  Tally& t = *static_cast<Tally*>(argument);
  if (t.busy[static_cast<size_t>(worker)]++ != 0) t.shared = true;
  ++t.calls[static_cast<size_t>(index)];
  --t.busy[static_cast<size_t>(worker)];
}

void ExpectOnceEach(const Parallel& parallel, int64_t tasks) {
  Tally tally(tasks, parallel.workers);
  parallel.run(parallel.context, tasks, Count, &tally);
  for (const auto& calls : tally.calls) EXPECT_EQ(calls, 1);
  EXPECT_FALSE(tally.shared) << "two threads ran under one worker id";
}

TEST(Parallel, EachTaskOnceOnEveryExecutor) {
  for (int64_t tasks : {0, 1, 2, 7, 1000}) {
    ExpectOnceEach(SerialParallel(), tasks);
    for (int workers : {1, 2, 3, 7}) {
      ExpectOnceEach(OpenMPParallel(workers), tasks);
      const DefaultExecutor executor(workers);
      EXPECT_EQ(executor.workers(), workers);
      ExpectOnceEach(executor.parallel(), tasks);
      ThreadPool pool(workers);
      EXPECT_EQ(pool.parallel().workers, workers);
      for (int repeat = 0; repeat < 5; ++repeat) ExpectOnceEach(pool.parallel(), tasks);
    }
  }
}

// A run inside a task of the same executor happens on the calling thread instead of waiting for itself.
void ExpectNests(const Parallel& parallel) {
  struct Nested {
    Parallel parallel;
    std::atomic<int> inner{0};
    std::atomic<bool> moved{false};
  } nested{parallel};
  parallel.run(parallel.context, 5, [](void* argument, int64_t, int) {
    Nested& n = *static_cast<Nested*>(argument);
    struct Inner {
      Nested& n;
      std::thread::id caller;
    } inner{n, std::this_thread::get_id()};
    n.parallel.run(n.parallel.context, 3, [](void* a, int64_t, int) {
      Inner& i = *static_cast<Inner*>(a);
      ++i.n.inner;
      if (std::this_thread::get_id() != i.caller) i.n.moved = true;
    }, &inner);
  }, &nested);
  EXPECT_EQ(nested.inner, 15);
  EXPECT_FALSE(nested.moved);
}

TEST(Parallel, NestedRunsAreSerial) {
  ExpectNests(OpenMPParallel(3));
  ThreadPool pool(3);
  ExpectNests(pool.parallel());
}

TEST(Parallel, TwoThreadsShareAPool) {
  ThreadPool pool(2);
  std::thread other([&] {
    for (int i = 0; i < 50; ++i) ExpectOnceEach(pool.parallel(), 20);
  });
  for (int i = 0; i < 50; ++i) ExpectOnceEach(pool.parallel(), 20);
  other.join();
}

}  // namespace
}  // namespace attenio
