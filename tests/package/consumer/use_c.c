#include <attenio/version.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  char expected[32];
  snprintf(expected, sizeof expected, "%d.%d.%d", ATTENIO_VERSION_MAJOR, ATTENIO_VERSION_MINOR, ATTENIO_VERSION_PATCH);
  printf("attenio %s\n", attenio_version());
  return strcmp(expected, attenio_version()) != 0;
}
