// What `attenio accuracy` compares: exact attention, the certified approximations, and the comparators.
#ifndef ATTENIO_SRC_CLI_ACCURACY_METHOD_H_
#define ATTENIO_SRC_CLI_ACCURACY_METHOD_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/approx_call.h"
#include "cli/command.h"
#include "cli/operands.h"

namespace attenio::cli {

// exact; poly and groups (where they are faster); poly-always and groups-always (whatever they cost); taylor, performer, nystrom,
// window.
const std::vector<std::string>& MethodNames();

// How a method's parameters are swept.
bool TakesMaxError(const std::string& method);
bool TakesDegree(const std::string& method);
bool TakesFeatures(const std::string& method);

struct MethodOptions {
  std::string name = "exact";
  double max_error = 1e-2;
  int degree = -1;         // taylor: of the polynomial (-1: 2); poly: the largest allowed (-1: 8)
  int64_t features = 256;  // performer, nystrom, window
  std::string kernel;
  int workers = 1;
};

// One method on one problem. Throws InputError where the arguments make no sense.
class Method {
 public:
  virtual ~Method() = default;
  virtual std::string Obstacle() const = 0;  // why it cannot run; empty: it can
  virtual void Run(Problem* problem, const Parallel& parallel) = 0;
  virtual const ApproxCall* call() const { return nullptr; }
  virtual int degree() const { return -1; }
  // Bytes across the L2 boundary, regime and schedule; empty object where there is no model.
  virtual nlohmann::ordered_json Traffic(bool simulate) const;
};
std::unique_ptr<Method> MakeMethod(const MethodOptions& options, const AttentionDesc& desc);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_ACCURACY_METHOD_H_
