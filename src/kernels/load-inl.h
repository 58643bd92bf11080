// Loads of f32, bf16 and f16 (and of boolean masks) as vectors of f32. Integer conversions of our own, because Highway's
// types and their rounding differ between its versions and targets; they equal those of base/bits.h.
#if defined(ATTENIO_SRC_KERNELS_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTENIO_SRC_KERNELS_LOAD_INL_H_
#undef ATTENIO_SRC_KERNELS_LOAD_INL_H_
#else
#define ATTENIO_SRC_KERNELS_LOAD_INL_H_
#endif

#include <cstdint>

#include "attenio/types.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, D>> LoadBits16(D, const uint16_t* bits) {
  const hn::Rebind<uint32_t, D> du32;
  const hn::Rebind<uint16_t, D> du16;
  return hn::PromoteTo(du32, hn::LoadU(du16, bits));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const float* p) {
  return hn::LoadU(d, p);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const BF16* p) {
  return hn::BitCast(d, hn::ShiftLeft<16>(LoadBits16(d, &p->bits)));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const F16* p) {
  const hn::Rebind<uint32_t, D> du;
  const auto bits = LoadBits16(d, &p->bits);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffu));
  const auto sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  // Multiplying by 2^112 moves the exponent and renormalises subnormals, exactly.
  const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(d, shifted), hn::Set(d, 0x1p112f)));
  const auto special = hn::Or(shifted, hn::Set(du, 0x7f800000u));
  const auto is_special = hn::Gt(magnitude, hn::Set(du, 0x7bffu));
  return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_special, special, finite)));
}

// What a boolean mask adds to a score: 0 where it is nonzero, -infinity where it is 0.
template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const uint8_t* p) {
  const hn::Rebind<uint32_t, D> du;
  const hn::Rebind<uint8_t, D> du8;
  const auto excluded = hn::Eq(hn::PromoteTo(du, hn::LoadU(du8, p)), hn::Zero(du));
  return hn::BitCast(d, hn::IfThenElseZero(excluded, hn::Set(du, 0xff800000u)));
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_LOAD_INL_H_
