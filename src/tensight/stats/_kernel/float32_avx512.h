// float32 with AVX-512: the same block as in accumulate.h, in fewer instructions, which are what bounds it. Lanes are
// counted from the masks of comparisons, outside of the vector units; magnitudes follow from the sum of the values that
// are not negative; additions that a multiply-add does as well go to the units that would have nothing to do.

struct MaskedSums {
    DoubleVector sum = {}, squares = {}, positive = {};

    INLINE void add(DoubleVector value, __mmask8 not_negative) {
        sum = multiply_add(value, DoubleVector{} + 1.0, sum);
        squares = multiply_add(value, value, squares);
        positive = _mm512_mask_add_pd(positive, not_negative, positive, value);
    }
};

INLINE void conclude(const MaskedSums& low, const MaskedSums& high, FloatVector least, FloatVector most, Block& block) {
    block.sum = total(low.sum + high.sum);
    block.squares = total(low.squares + high.squares);
    block.magnitudes = 2 * total(low.positive + high.positive) - block.sum;  // not finite where a value was not
    add_extremes(least, most, block);
}

template <>
void read_finite<LoadFloat32>(const float* p, int n, Block& block) {
    const FloatVector none = {};
    FloatVector least = none + *p, most = least;
    int64_t zeros = 0, not_negative = 0;
    MaskedSums low, high;
    int i = 0;
    for (; i + kFloats <= n; i += kFloats) {
        const FloatVector v = load<FloatVector>(p + i);
        prefetch(p + i);
        least = lesser(v, least);
        most = greater(v, most);
        const __mmask16 up = _mm512_cmp_ps_mask(v, none, _CMP_NLT_UQ);
        not_negative += __builtin_popcount(up);
        zeros += __builtin_popcount(_mm512_cmp_ps_mask(v, none, _CMP_EQ_OQ));
        low.add(widened(p + i), __mmask8(up));
        high.add(widened(p + i + kFloats / 2), __mmask8(up >> 8));
    }
    block.count = n;
    block.zero = zeros;
    block.negative = i - not_negative;
    block.min = block.max = *p;
    conclude(low, high, least, most, block);
    for (; i < n; ++i) add_scalar(p[i], block);
}

INLINE DoubleVector widened(__mmask8 lanes, const float* p) { return _mm512_maskz_cvtps_pd(lanes, _mm256_loadu_ps(p)); }

template <>
void read_carefully<LoadFloat32>(const float* p, int n, Block& block) {
    const FloatVector none = {}, largest = none + __FLT_MAX__, infinity = none + __builtin_inff();
    FloatVector least = infinity, most = -infinity;
    int64_t zeros = 0, not_negative = 0, good = 0, nans = 0, infinities = 0;
    MaskedSums low, high;
    int i = 0;
    for (; i + kFloats <= n; i += kFloats) {
        const FloatVector v = load<FloatVector>(p + i);
        prefetch(p + i);
        const __mmask16 finite = _mm512_cmp_ps_mask(magnitude(v), largest, _CMP_LE_OQ);
        if (finite != 0xffff) {
            nans += __builtin_popcount(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q));
            infinities += __builtin_popcount(_mm512_cmp_ps_mask(v, infinity, _CMP_EQ_OQ));
        }
        good += __builtin_popcount(finite);
        least = _mm512_mask_min_ps(least, finite, v, least);
        most = _mm512_mask_max_ps(most, finite, v, most);
        const __mmask16 up = _mm512_mask_cmp_ps_mask(finite, v, none, _CMP_NLT_UQ);
        not_negative += __builtin_popcount(up);
        zeros += __builtin_popcount(_mm512_cmp_ps_mask(v, none, _CMP_EQ_OQ));
        low.add(widened(__mmask8(finite), p + i), __mmask8(up));
        high.add(widened(__mmask8(finite >> 8), p + i + kFloats / 2), __mmask8(up >> 8));
    }
    block.count = good;
    block.nan = nans;
    block.pos_inf = infinities;
    block.neg_inf = i - good - nans - infinities;
    block.zero = zeros;
    block.negative = good - not_negative;
    block.min = __builtin_inf();
    block.max = -__builtin_inf();
    conclude(low, high, least, most, block);
    for (; i < n; ++i) add_careful_scalar(p[i], block);
}
