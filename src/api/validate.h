// Argument checks of the public API.
#ifndef ATTENIO_SRC_API_VALIDATE_H_
#define ATTENIO_SRC_API_VALIDATE_H_

#include "attenio/attention.h"

namespace attenio {

// `desc` with every default filled in (strides, scale, out_dtype, mask.kv_len), or an error that names the argument.
Result<AttentionDesc> Resolve(const AttentionDesc& desc);

// Whether every operand that the (resolved) description needs is there; empty tensors may be null.
Status CheckOperands(const AttentionDesc& desc, const Operands& operands);

}  // namespace attenio

#endif  // ATTENIO_SRC_API_VALIDATE_H_
