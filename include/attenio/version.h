// The version of attenio, written here only: CMake reads it from this file.
#ifndef ATTENIO_VERSION_H_
#define ATTENIO_VERSION_H_

#include "attenio/export.h"

#define ATTENIO_VERSION_MAJOR 0
#define ATTENIO_VERSION_MINOR 1
#define ATTENIO_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

// Version of the library that runs, as "major.minor.patch": it differs from the macros when a program was compiled
// against another release of a shared library. Static storage, never NULL, callable from any thread.
ATTENIO_API const char* attenio_version(void);

#ifdef __cplusplus
}
#endif

#endif  // ATTENIO_VERSION_H_
