// SIGINT and SIGTERM as a request to end: what is measured by then is still printed.
#ifndef ATTENIO_SRC_CLI_INTERRUPT_H_
#define ATTENIO_SRC_CLI_INTERRUPT_H_

namespace attenio::cli {

// From now on the first SIGINT or SIGTERM only sets a flag; a second one ends the program.
void CatchInterrupts();

// The signal that came, or 0.
int Interrupted();

}  // namespace attenio::cli

#endif  // ATTENIO_SRC_CLI_INTERRUPT_H_
