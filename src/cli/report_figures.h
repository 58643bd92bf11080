// The sections of `attenio report`: each runs commands, says what they show and draws it.
#ifndef ATTENIO_SRC_CLI_REPORT_FIGURES_H_
#define ATTENIO_SRC_CLI_REPORT_FIGURES_H_

#include "cli/report_page.h"

namespace attenio::cli {

void ReportMachine(ReportPage* page);      // what this machine can do; writes machine.json for the others
void ReportCorrectness(ReportPage* page);  // random problems against f64
void ReportSpeed(ReportPage* page);        // time and GFLOP/s over length, and the roofline
void ReportTraffic(ReportPage* page);      // bytes per level and dataflow beside the bound
void ReportAccuracy(ReportPage* page);     // error over time of the approximate methods
void ReportAccelerator(ReportPage* page);  // the hardware model: speed-ups and the overlap timeline

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_REPORT_FIGURES_H_
