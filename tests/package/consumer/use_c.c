/* attenio.h must be usable from strict C99, and the library must link into a C program. */
#include <attenio/attenio.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  /* One query whose two keys score alike: the result is the mean of the two values. */
  const float q[2] = {1, 0}, k[4] = {1, 2, 1, 3}, v[2] = {3, 5};
  float out = 0;
  char expected[32];
  attenio_error error;
  attenio_desc desc;
  attenio_operands operands;

  attenio_desc_init(&desc, sizeof desc);
  desc.q_len = 1;
  desc.kv_len = 2;
  desc.qk_dim = 2;
  desc.v_dim = 1;
  attenio_operands_init(&operands, sizeof operands);
  operands.q = q;
  operands.k = k;
  operands.v = v;
  operands.out = &out;
  if (attenio_attend(&desc, &operands, &error) != ATTENIO_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  printf("attenio %s: %g\n", attenio_version(), out);
  sprintf(expected, "%d.%d.%d", ATTENIO_VERSION_MAJOR, ATTENIO_VERSION_MINOR, ATTENIO_VERSION_PATCH);
  return strcmp(expected, attenio_version()) != 0 || out < 3.999f || out > 4.001f;
}
