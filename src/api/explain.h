// A plan as text for people.
#ifndef ATTENIO_SRC_API_EXPLAIN_H_
#define ATTENIO_SRC_API_EXPLAIN_H_

#include <string>

#include "exec/run.h"

namespace attenio {

std::string ExplainProblem(const Problem& problem, const Machine& machine, const std::string& rejected, const std::string& origin);

}  // namespace attenio

#endif  // ATTENIO_SRC_API_EXPLAIN_H_
