/* The C API: a plan for cross-attention with a boolean mask, and an error that names its argument. */
#include <attenio/attenio.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 2, QUERIES = 5, KEYS = 40, DIM = 16 };

int main(void) {
  static float q[HEADS * QUERIES * DIM], k[HEADS * KEYS * DIM], v[HEADS * KEYS * DIM], out[HEADS * QUERIES * DIM];
  static unsigned char mask[KEYS];
  attenio_desc desc;
  attenio_operands operands;
  attenio_error error;
  attenio_plan *plan;
  void *workspace;
  size_t i, bytes;

  for (i = 0; i < sizeof q / sizeof *q; ++i) q[i] = (float)(i % 7) / 7;
  for (i = 0; i < sizeof k / sizeof *k; ++i) k[i] = (float)(i % 5) / 5;
  for (i = 0; i < sizeof v / sizeof *v; ++i) v[i] = 1; /* then every output is 1, whatever the weights */
  for (i = 0; i < KEYS; ++i) mask[i] = i < 30;         /* the last ten keys are padding */

  attenio_desc_init(&desc, sizeof desc);
  desc.q_heads = desc.kv_heads = HEADS;
  desc.q_len = QUERIES;
  desc.kv_len = KEYS;
  desc.qk_dim = desc.v_dim = DIM;
  desc.mask_dtype = ATTENIO_BOOL; /* strides 0 broadcast it over batch, heads and queries */

  if (attenio_plan_create(&desc, NULL, &plan, &error) != ATTENIO_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  attenio_operands_init(&operands, sizeof operands);
  operands.q = q;
  operands.k = k;
  operands.v = v;
  operands.out = out;
  operands.mask = mask;
  bytes = attenio_workspace_bytes(plan);
  workspace = malloc(bytes);
  if (workspace == NULL || attenio_run(plan, &operands, workspace, bytes, NULL, &error) != ATTENIO_OK) {
    fprintf(stderr, "%s\n", workspace == NULL ? "no memory" : error.message);
    return 1;
  }
  free(workspace);
  attenio_plan_destroy(plan);
  printf("attenio %s: out[0] = %g\n", attenio_version(), out[0]);

  desc.kv_heads = 3;
  if (attenio_plan_create(&desc, NULL, &plan, &error) == ATTENIO_OK) return 1;
  printf("as it should be: %s\n", error.message);
  return out[0] > 0.9999f && out[0] < 1.0001f ? 0 : 1;
}
