// An Accelerator as a JSON file: every parameter by its name, those left out keep the value of the "base" preset.
#ifndef ATTENIO_SRC_CLI_ACCELERATOR_JSON_H_
#define ATTENIO_SRC_CLI_ACCELERATOR_JSON_H_

#include <string>

#include "attenio/hw.h"

namespace attenio::cli {

// "attenio", "fusemax-cloud", "attenio:PEAK" (flop/s, e.g. attenio:16e12) or a JSON file. Throws InputError.
Accelerator LoadAccelerator(const std::string& name_or_file);

// The JSON text that LoadAccelerator reads back to an equal value.
std::string ToJson(const Accelerator& accelerator);

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_ACCELERATOR_JSON_H_
