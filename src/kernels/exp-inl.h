// 2^x and tanh in f32, one copy per Highway target.
#if defined(ATTENIO_SRC_KERNELS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTENIO_SRC_KERNELS_EXP_INL_H_
#undef ATTENIO_SRC_KERNELS_EXP_INL_H_
#else
#define ATTENIO_SRC_KERNELS_EXP_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attenio {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 2^f on [-0.5, 0.5], exactly 1 at 0. The coefficients were fitted together with their f32 roundings for the fewest ulp: 1.9 in
// all with fused multiply-adds for degree 5 (1.1 of them the polynomial's); two roundings per step need the next degree: 1.1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2Fraction(D d, V f) {
#if HWY_NATIVE_FMA
  V p = hn::MulAdd(f, hn::Set(d, 0x1.5aac90p-10f), hn::Set(d, 0x1.3ceac8p-7f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.c6baa2p-5f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.ebf9b6p-3f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.62e424p-1f));
#else
  V p = hn::MulAdd(f, hn::Set(d, 0x1.41dfb4p-13f), hn::Set(d, 0x1.5f0ab6p-10f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.3b2d58p-7f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.c6af78p-5f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.ebfbdcp-3f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.62e430p-1f));
#endif
  return hn::MulAdd(f, p, hn::Set(d, 1.0f));
}

// 2^x for x <= 127 within 2 ulp; 0 below -126 (where the result would be subnormal), NaN for NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
  const V n = hn::Round(x);
  const V p = Exp2Fraction(d, hn::Sub(x, n));
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  // VSCALEFPS multiplies by 2^n: no conversion, and the mask that flushes to 0 is part of it. (VREDUCEPS would replace rounding
  // and subtraction, but on Zen 4 it waits for the old value of its destination, and the whole takes 3 times as long.)
  if constexpr (hn::MaxLanes(d) == 16) {
    const __mmask16 normal = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
    return V{_mm512_maskz_scalef_ps(normal, p.raw, n.raw)};
  }
#endif
  // Adding 1.5 * 2^23 + 127 leaves the biased exponent of 2^n in the low bits, without the range checks of a conversion to
  // integer; the product (and not an addition to the exponent) keeps NaN what it is.
  const hn::Rebind<uint32_t, D> du;
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, hn::Add(n, hn::Set(d, 0x1.8p23f + 127)))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), hn::Mul(p, power));
}

// tanh with a small relative error everywhere, by e = 2^y - 1 without cancellation and tanh = e / (e + 2), y = 2 |x| log2(e).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  // Beyond 29 tanh is 1 in f32. Not Min, which loses NaN on some targets.
  const V scaled = hn::Mul(hn::Abs(x), hn::Set(d, 2.8853900817779268f)), limit = hn::Set(d, 29.0f);
  const V y = hn::IfThenElse(hn::Gt(scaled, limit), limit, scaled);
  const V n = hn::Floor(y);
  const V f = hn::Sub(y, n);
  const hn::Rebind<uint32_t, D> du;
  const V two_n = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, hn::Add(n, hn::Set(d, 0x1.8p23f + 127)))));
  // 2^f - 1 on [0, 1], relative error 2e-9.
  V p = hn::MulAdd(f, hn::Set(d, 0x1.c4456ep-13f), hn::Set(d, 0x1.47373ap-10f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.3cfd82p-7f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.c68af6p-5f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.ebfd3ap-3f));
  p = hn::Mul(f, hn::MulAdd(f, p, hn::Set(d, 0x1.62e42cp-1f)));
  const V e = hn::MulAdd(two_n, p, hn::Sub(two_n, hn::Set(d, 1.0f)));
  const V divisor = hn::Add(e, hn::Set(d, 2.0f));
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  // One Newton step takes the 14 bits of the approximation to 24 in half the time of a division.
  const V r = hn::ApproximateReciprocal(divisor);
  const V t = hn::Mul(e, hn::Mul(r, hn::NegMulAdd(divisor, r, hn::Set(d, 2.0f))));
#else
  const V t = hn::Div(e, divisor);
#endif
  return hn::CopySign(t, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_EXP_INL_H_
