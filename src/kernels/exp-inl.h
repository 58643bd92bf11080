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

// 2^f on [0, 1], exactly 1 at 0 and 2 at 1 (the value for small negative x): a polynomial of degree 6 with least absolute
// error, fitted with its f32 coefficients and roundings: at most 0.9 ulp in all. Degree 5 would leave 1.9 ulp of the 2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2Fraction(D d, V f) {
  V p = hn::MulAdd(f, hn::Set(d, 0x1.ca93e0p-13f), hn::Set(d, 0x1.44f864p-10f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.3d4964p-7f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.c681e8p-5f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.ebfdb2p-3f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.62e42ap-1f));
  return hn::MulAdd(f, p, hn::Set(d, 1.0f));
}

// 2^x for x < 128 within 2 ulp (1.3 with fused multiply-add); 0 below -126 (where the result would be subnormal), NaN for NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  // VREDUCEPS leaves x - floor(x), VSCALEFPS multiplies by 2^floor(x): nothing has to be converted or clamped, and the mask
  // that flushes to 0 costs no instruction of its own.
  if constexpr (hn::MaxLanes(d) == 16) {
    const V f{_mm512_reduce_ps(x.raw, 0x09)};
    const __mmask16 normal = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
    return V{_mm512_maskz_scalef_ps(normal, Exp2Fraction(d, f).raw, x.raw)};
  }
#endif
  // Adding 1.5 * 2^23 + 127 leaves the biased exponent of 2^floor(x) in the low bits, without the range checks of a
  // conversion to integer; the product (and not an addition to the exponent) keeps NaN what it is.
  const hn::Rebind<uint32_t, D> du;
  const V floor = hn::Floor(x);
  const V p = Exp2Fraction(d, hn::Sub(x, floor));
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, hn::Add(floor, hn::Set(d, 0x1.8p23f + 127)))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), hn::Mul(p, power));
}

// tanh with a small relative error everywhere, by e = 2^y - 1 without cancellation and tanh = e / (e + 2), y = 2 |x| log2(e).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  // Beyond 10 tanh is 1 in f32. NaN passes Min unharmed on x86 as its second operand; the last line restores it elsewhere.
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 10.0f));
  const V y = hn::Mul(a, hn::Set(d, 2.8853900817779268f));
  const V n = hn::Floor(y);
  const V f = hn::Sub(y, n);
  const hn::Rebind<int32_t, D> di;
  const V two_n = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127))));
  // The same polynomial without its 1: 2^f - 1.
  V p = hn::MulAdd(f, hn::Set(d, 0x1.c4456ep-13f), hn::Set(d, 0x1.47373ap-10f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.3cfd82p-7f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.c68af6p-5f));
  p = hn::MulAdd(f, p, hn::Set(d, 0x1.ebfd3ap-3f));
  p = hn::Mul(f, hn::MulAdd(f, p, hn::Set(d, 0x1.62e42cp-1f)));
  const V e = hn::MulAdd(two_n, p, hn::Sub(two_n, one));
  const V t = hn::CopySign(hn::Div(e, hn::Add(e, hn::Set(d, 2.0f))), x);
  return hn::IfThenElse(hn::IsNaN(x), x, t);
}

}  // namespace HWY_NAMESPACE
}  // namespace attenio
HWY_AFTER_NAMESPACE();

#endif  // ATTENIO_SRC_KERNELS_EXP_INL_H_
