// float32 with AVX-512 and an earlier copy: the same numbers as in change.h, in one loop over both, so that the
// processor computes on one while the other is on its way from memory.
//
// Nearly all weights of a training move by far more than the tolerance in each update. So a vector is first judged as
// floats, against a tolerance that is a little too large: who is beyond it has moved, and has other bits. Only vectors
// with a value that is not beyond it are judged as doubles. Distances are doubles always.

INLINE int64_t count_beyond(DoubleVector distance, DoubleVector size, Tolerance tolerance) {
    return __builtin_popcount(_mm512_cmp_pd_mask(distance, tolerance.atol + tolerance.rtol * size, _CMP_GT_OQ));
}

struct Distances {
    DoubleVector sum = {}, before = {}, largest = {};

    INLINE void add(DoubleVector distance, DoubleVector size) {
        sum = multiply_add(distance, DoubleVector{} + 1.0, sum);
        before = multiply_add(size, DoubleVector{} + 1.0, before);
        largest = greater(distance, largest);
    }
};

template <>
void read_and_compare<LoadFloat32, uint32_t>(const float* now, const float* before, int n, Tolerance tolerance, bool& trouble,
                                             Block& block, Difference& difference, int64_t& equal) {
    if (trouble) {
        read_and_compare_apart<LoadFloat32, uint32_t>(now, before, n, tolerance, trouble, block, difference, equal);
        return;
    }
    constexpr double kMore = 1 + 1e-6;  // rounding to float and what is computed with it takes less
    const FloatVector rtol = FloatVector{} + rounded_up(tolerance.rtol * kMore);
    const FloatVector atol = FloatVector{} + rounded_up(tolerance.atol * kMore);
    const FloatVector none = {};
    FloatVector least = none + *now, most = least;
    int64_t zeros = 0, not_negative = 0, moved = 0, same = 0;
    MaskedSums low, high;
    Distances apart_low, apart_high;
    int i = 0;
    for (; i + kFloats <= n; i += kFloats) {
        prefetch(now + i);
        prefetch(before + i);
        const FloatVector x = load<FloatVector>(now + i), y = load<FloatVector>(before + i);
        least = lesser(x, least);
        most = greater(x, most);
        const __mmask16 up = _mm512_cmp_ps_mask(x, none, _CMP_NLT_UQ);
        not_negative += __builtin_popcount(up);
        zeros += __builtin_popcount(_mm512_cmp_ps_mask(x, none, _CMP_EQ_OQ));
        const DoubleVector x_low = widened(now + i), x_high = widened(now + i + kFloats / 2);
        const DoubleVector y_low = widened(before + i), y_high = widened(before + i + kFloats / 2);
        low.add(x_low, __mmask8(up));
        high.add(x_high, __mmask8(up >> 8));
        const DoubleVector d_low = magnitude(x_low - y_low), d_high = magnitude(x_high - y_high);
        apart_low.add(d_low, magnitude(y_low));
        apart_high.add(d_high, magnitude(y_high));
        const FloatVector tolerated = _mm512_fmadd_ps(magnitude(y), rtol, atol);
        if (__builtin_expect(_mm512_cmp_ps_mask(magnitude(x - y), tolerated, _CMP_GT_OQ) == 0xffff, 1)) {
            moved += kFloats;
        } else {
            moved += count_beyond(d_low, magnitude(y_low), tolerance) + count_beyond(d_high, magnitude(y_high), tolerance);
            same += __builtin_popcount(_mm512_cmpeq_epi32_mask((__m512i)x, (__m512i)y));
        }
    }
    difference.count = i;
    difference.sum = total(apart_low.sum + apart_high.sum);
    difference.before = total(apart_low.before + apart_high.before);
    difference.moved = moved;
    const DoubleVector largest = greater(apart_low.largest, apart_high.largest);
    for (int lane = 0; lane < kDoubles; ++lane)
        if (largest[lane] > difference.largest) difference.largest = largest[lane];
    block.count = n;
    block.zero = zeros;
    block.negative = i - not_negative;
    block.min = block.max = *now;
    conclude(low, high, least, most, block);
    for (int j = i; j < n; ++j) {
        add_scalar(now[j], block);
        compare_one(now[j], before[j], tolerance, difference);
    }
    if (__builtin_expect(is_finite(block.magnitudes) && is_finite(difference.sum) && is_finite(difference.before), 1)) {
        add_deviations<LoadFloat32>(now, n, block);
        equal += same + count_equal<uint32_t>(now + i, before + i, n - i);
        return;
    }
    block = Block();
    difference = Difference();
    read_and_compare_apart<LoadFloat32, uint32_t>(now, before, n, tolerance, trouble, block, difference, equal);
}
