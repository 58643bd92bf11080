// What the analysis needs to know of a description.
#ifndef ATTENIO_SRC_EXEC_SHAPE_H_
#define ATTENIO_SRC_EXEC_SHAPE_H_

#include "attenio/attention.h"
#include "attenio/io.h"

namespace attenio {

// With the offset of the description itself, not those per batch entry.
inline Shape ShapeOf(const AttentionDesc& d) {
  return {.batch = d.batch,
          .q_heads = d.q_heads,
          .kv_heads = d.kv_heads,
          .q_len = d.q_len,
          .kv_len = d.kv_len,
          .qk_dim = d.qk_dim,
          .v_dim = d.v_dim,
          .element_bytes = ElementBytes(d.dtype),
          .offset = d.offset,
          .left = d.window_left,
          .right = d.causal ? 0 : d.window_right};
}

}  // namespace attenio

#endif  // ATTENIO_SRC_EXEC_SHAPE_H_
