// The version of attenio, written here only: CMake reads it from this file.
#ifndef ATTENIO_VERSION_H_
#define ATTENIO_VERSION_H_

#define ATTENIO_VERSION_MAJOR 0
#define ATTENIO_VERSION_MINOR 1
#define ATTENIO_VERSION_PATCH 0

#endif  // ATTENIO_VERSION_H_
