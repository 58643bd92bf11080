// The Parallel hook with a callable.
#ifndef ATTENIO_SRC_APPROX_PARALLEL_FOR_H_
#define ATTENIO_SRC_APPROX_PARALLEL_FOR_H_

#include <cstdint>
#include <type_traits>

#include "attenio/parallel.h"

namespace attenio::approx {

// body(index, worker) for every index in 0..tasks.
template <class Body>
void ParallelFor(const Parallel& parallel, int64_t tasks, Body&& body) {
  if (tasks <= 0) return;
  parallel.run(
      parallel.context, tasks,
      [](void* argument, int64_t index, int worker) {
        (*static_cast<std::remove_reference_t<Body>*>(argument))(index, worker);
      },
      &body);
}

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_PARALLEL_FOR_H_
