#include "attenio/version.h"

#define ATTENIO_TEXT(x) #x
#define ATTENIO_JOIN(major, minor, patch) ATTENIO_TEXT(major) "." ATTENIO_TEXT(minor) "." ATTENIO_TEXT(patch)

const char* attenio_version(void) {
  return ATTENIO_JOIN(ATTENIO_VERSION_MAJOR, ATTENIO_VERSION_MINOR, ATTENIO_VERSION_PATCH);
}
