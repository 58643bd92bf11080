// Machine files: what `attenio calibrate` writes and the solver, the tables and the projections read.
#ifndef ATTENIO_SRC_CLI_MACHINE_FILE_H_
#define ATTENIO_SRC_CLI_MACHINE_FILE_H_

#include <nlohmann/json.hpp>
#include <string>

#include "attenio/io.h"

namespace attenio::cli {

nlohmann::ordered_json MachineToJson(const Machine& machine);

// The inverse; `origin` begins the message of the InputError that a missing, unknown or senseless value gives.
Machine MachineFromJson(const nlohmann::ordered_json& json, const std::string& origin);

// "this": the machine file that the environment variable ATTENIO_MACHINE names, else this computer as detected (no rates);
// "attenio": the paper's; anything else: the path of a machine file. Throws InputError.
Machine LoadMachine(const std::string& name);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_MACHINE_FILE_H_
