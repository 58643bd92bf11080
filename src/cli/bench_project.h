// Predicted time of a plan: its schedule and kernel on a calibrated machine, for `attenio bench --project`.
#ifndef ATTENIO_SRC_CLI_BENCH_PROJECT_H_
#define ATTENIO_SRC_CLI_BENCH_PROJECT_H_

#include <string>

#include "attenio/attention.h"
#include "attenio/hw.h"

namespace attenio::cli {

// The calibrated machine of --machine or ATTENIO_MACHINE. Throws InputError when its rates are not measured.
Machine CalibratedMachine(const std::string& name);

// Errors as ProjectTime.
Result<CpuProjection> ProjectPlan(const Plan& plan, const Machine& machine, int threads);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_BENCH_PROJECT_H_
