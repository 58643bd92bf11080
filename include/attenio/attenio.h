/* attenio's C API (C99): scaled dot-product attention on the CPU.

   attenio_desc d;  attenio_desc_init(&d, sizeof d);   set what differs from the defaults
   attenio_plan *plan;  attenio_error e;
   if (attenio_plan_create(&d, NULL, &plan, &e)) ... e.message says which argument is wrong
   attenio_run(plan, &operands, workspace, attenio_workspace_bytes(plan), NULL, &e);
   attenio_plan_destroy(plan);

   Nothing here throws, prints or aborts. A plan is immutable: any number of threads may run it at the same time, each with a
   workspace of its own. Every struct begins with struct_size, set by its init function; fields are only ever appended.
   What each field means is said in attention.h (the C++ API), which has the same names. */
#ifndef ATTENIO_ATTENIO_H_
#define ATTENIO_ATTENIO_H_

#include <stddef.h>
#include <stdint.h>

#include "attenio/export.h"
#include "attenio/version.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum attenio_code {
  ATTENIO_OK = 0,
  ATTENIO_INVALID_ARGUMENT = 1,
  ATTENIO_UNSUPPORTED = 2,
  ATTENIO_OUT_OF_MEMORY = 3,
  ATTENIO_WORKSPACE_TOO_SMALL = 4
} attenio_code;

/* An integer and not an enum: the library must be able to refuse a wrong value, and C++ leaves reading one undefined. */
typedef int32_t attenio_dtype;
enum { ATTENIO_F32 = 0, ATTENIO_BF16 = 1, ATTENIO_F16 = 2, ATTENIO_BOOL = 3, ATTENIO_NONE = -1 };

/* Owned by the caller, always terminated by 0. May be NULL wherever it is asked for. */
typedef struct attenio_error {
  attenio_code code;
  char message[256];
} attenio_error;

/* Element strides of (batch, head, row, element). ATTENIO_CONTIGUOUS in an outer stride stands for a contiguous tensor. */
#define ATTENIO_CONTIGUOUS INT64_MIN
typedef struct attenio_strides {
  int64_t batch, head, row, element;
} attenio_strides;

typedef struct attenio_desc {
  size_t struct_size;
  int64_t batch, q_heads, kv_heads, q_len, kv_len, qk_dim, v_dim;
  attenio_dtype dtype;
  attenio_dtype out_dtype; /* ATTENIO_NONE: dtype */
  attenio_strides q, k, v, out;
  double scale; /* used when has_scale is nonzero, else 1/sqrt(qk_dim) */
  int32_t has_scale;
  int32_t causal;
  double softcap;                      /* 0: off */
  int64_t window_left, window_right;   /* -1: unbounded */
  int64_t offset;
  const int64_t *offsets; /* NULL, or one per batch entry; copied */
  const int64_t *kv_lens; /* NULL, or one per batch entry; copied */
  attenio_dtype mask_dtype; /* ATTENIO_NONE: no mask */
  int64_t mask_batch, mask_head, mask_query, mask_key; /* element strides, 0 broadcasts */
  int64_t mask_kv_len; /* -1: kv_len */
  int32_t alibi, sinks, lse;
  attenio_strides lse_strides;
} attenio_desc;

typedef struct attenio_options {
  size_t struct_size;
  const char *kernel;   /* NULL: the best that fits */
  const char *schedule; /* NULL: solved */
  int32_t workers;      /* most workers that will run the plan; 0: the machine's cores */
} attenio_options;

typedef struct attenio_operands {
  size_t struct_size;
  const void *q, *k, *v;
  void *out;
  const void *mask;
  const float *alibi, *sinks;
  float *lse;
} attenio_operands;

/* The executor: run(context, tasks, task, argument) must call task(argument, i, worker) once for every i in 0..tasks-1, with
   worker in 0..workers-1 and one thread at a time per worker, and return when all calls have returned. */
typedef void (*attenio_task)(void *argument, int64_t index, int worker);
typedef struct attenio_executor {
  size_t struct_size;
  void (*run)(void *context, int64_t tasks, attenio_task task, void *argument);
  void *context;
  int32_t workers;
} attenio_executor;

typedef struct attenio_plan attenio_plan;

/* Defaults, of the size that the caller was compiled with. */
ATTENIO_API void attenio_desc_init(attenio_desc *desc, size_t struct_size);
ATTENIO_API void attenio_options_init(attenio_options *options, size_t struct_size);
ATTENIO_API void attenio_operands_init(attenio_operands *operands, size_t struct_size);
ATTENIO_API void attenio_executor_init(attenio_executor *executor,
                                       size_t struct_size); /* one worker, run still to be set */

/* Validates, picks a kernel, solves the schedule. options may be NULL. On error *plan is NULL. */
ATTENIO_API attenio_code attenio_plan_create(const attenio_desc *desc, const attenio_options *options, attenio_plan **plan, attenio_error *error);
ATTENIO_API void attenio_plan_destroy(attenio_plan *plan); /* NULL is fine */
ATTENIO_API size_t attenio_workspace_bytes(const attenio_plan *plan);
/* Copies the plan as text, cut to `size` bytes with its final 0; returns the bytes needed without it. */
ATTENIO_API size_t attenio_explain(const attenio_plan *plan, char *text, size_t size);

/* executor NULL: the calling thread. Allocates nothing. */
ATTENIO_API attenio_code attenio_run(const attenio_plan *plan, const attenio_operands *operands, void *workspace, size_t workspace_bytes,
                                     const attenio_executor *executor, attenio_error *error);
/* For runtimes that own their threads: phases in order, the tasks of one phase in any order and at the same time. */
ATTENIO_API int64_t attenio_phases(const attenio_plan *plan);
ATTENIO_API int64_t attenio_tasks(const attenio_plan *plan, int64_t phase);
typedef struct attenio_task_id {
  int64_t phase, task;
  int32_t worker;
} attenio_task_id;
ATTENIO_API attenio_code attenio_run_task(const attenio_plan *plan, const attenio_operands *operands, void *workspace, size_t workspace_bytes,
                                          attenio_task_id id, attenio_error *error);

/* Plan, allocate, run with the default threads. */
ATTENIO_API attenio_code attenio_attend(const attenio_desc *desc, const attenio_operands *operands, attenio_error *error);

/* "0.1.0" */
ATTENIO_API const char *attenio_version(void);

#ifdef __cplusplus
}
#endif

#endif /* ATTENIO_ATTENIO_H_ */
