// Argument checks that the solvers share.
#ifndef ATTENIO_SRC_IO_CHECK_H_
#define ATTENIO_SRC_IO_CHECK_H_

#include "attenio/io.h"

namespace attenio::io {

Status CheckProblem(const Shape& shape, const SolveOptions& options);
Status CheckLevel(const MemoryLevel& level);

}  // namespace attenio::io

#endif  // ATTENIO_SRC_IO_CHECK_H_
