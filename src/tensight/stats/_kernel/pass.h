// One tensor, one pass. This file is compiled once per set of instructions: the including file defines
// TENSIGHT_VARIANT (the function's name) and TENSIGHT_VECTOR_BYTES, and is given the compiler options that allow them.

#include "interface.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tensight {
namespace {

constexpr int kBlock = 4096;  // values

#include "formats.h"
#include "lanes.h"
#include "accumulate.h"
#include "bfloat16.h"
#if defined(__AVX512F__)
#include "float32_avx512.h"
#endif
#include "change.h"
#if defined(__AVX512F__)
#include "change_avx512.h"
#endif
#include "walk.h"

// All blocks so far. Deviations are merged by the pairwise formula, so no block disturbs the digits of another.
struct Totals {
    int64_t count = 0, nan = 0, pos_inf = 0, neg_inf = 0, zero = 0, negative = 0;
    double sum = 0, squares = 0, magnitudes = 0, deviations = 0, min = 0, max = 0;
    Difference difference;
    int64_t equal = 0;

    void add(const Block& block) {
        nan += block.nan;
        pos_inf += block.pos_inf;
        neg_inf += block.neg_inf;
        if (block.count == 0) return;
        const double n = double(count), m = double(block.count);
        if (count) {
            const double apart = block.sum / m - sum / n;
            deviations += apart * apart * (n * m / (n + m));
        }
        if (count == 0 || block.min < min) min = block.min;
        if (count == 0 || block.max > max) max = block.max;
        count += block.count;
        zero += block.zero;
        negative += block.negative;
        sum += block.sum;
        squares += block.squares;
        magnitudes += block.magnitudes;
        deviations += block.deviations;
    }
    void add(const Difference& other) {
        difference.count += other.count;
        difference.sum += other.sum;
        difference.before += other.before;
        difference.moved += other.moved;
        if (other.largest > difference.largest) difference.largest = other.largest;
    }
};

inline Tolerance tolerance_of(const Needs* needs) { return {needs ? needs->rtol : 1e-5, needs ? needs->atol : 1e-8}; }

inline void ends_of(const Needs* needs, int64_t i, float& start, float& end) {
    start = rounded_up(needs->ends[2 * i]);
    end = rounded_down(needs->ends[2 * i + 1]);
}
inline void ends_of(const Needs* needs, int64_t i, double& start, double& end) {
    start = needs->ends[2 * i] < -__DBL_MAX__ ? -__DBL_MAX__ : needs->ends[2 * i];
    end = needs->ends[2 * i + 1] > __DBL_MAX__ ? __DBL_MAX__ : needs->ends[2 * i + 1];
}

template <class Load>
void add_within(const typename Load::Memory* p, int n, const Needs* needs, int64_t* within) {
    for (int64_t i = 0; needs && i < needs->ranges; ++i) {
        typename Load::Value start, end;
        ends_of(needs, i, start, end);
        within[i] += count_within<Load>(p, n, start, end);
    }
}

// Dtypes that come into vectors straight from memory.
template <class Load, class Word>
Totals pass_direct(const Task& task, const Needs* needs, int64_t* within) {
    using Memory = typename Load::Memory;
    Totals totals;
    bool trouble = false;
    walk<Memory>(task, kBlock, [&](const Memory* now, const Memory* before, int n) {
        add_within<Load>(now, n, needs, within);
        if (!before) {
            totals.add(read_block<Load>(now, n, trouble));
            return;
        }
        Block block;
        Difference difference;
        read_and_compare<Load, Word>(now, before, n, tolerance_of(needs), trouble, block, difference, totals.equal);
        totals.add(block);
        totals.add(difference);
    });
    return totals;
}

template <class Memory, class Value>
struct Decode {
    static void block(const Memory* p, int n, Value* out) {
        for (int i = 0; i < n; ++i) out[i] = Value(p[i]);
    }
};
template <>
struct Decode<Float16, float> {
    static void block(const Float16* p, int n, float* out) {
        for (int i = 0; i < n; ++i) out[i] = float16_value(p[i].bits);
    }
};
template <>
struct Decode<Bool, float> {
    static void block(const Bool* p, int n, float* out) {
        for (int i = 0; i < n; ++i) out[i] = p[i].bits ? 1.0f : 0.0f;
    }
};
template <int Format>
struct Decode<Float8<Format>, float> {
    static void block(const Float8<Format>* p, int n, float* out) {
        const float* values = float8_values<Format>();
        for (int i = 0; i < n; ++i) out[i] = values[p[i].bits];
    }
};

// Dtypes that are written out as float or double first, block by block. Both hold all their values exactly.
template <class Memory, class Load, class Word>
Totals pass_decoded(const Task& task, const Needs* needs, int64_t* within) {
    using Value = typename Load::Value;
    Totals totals;
    bool trouble = false;
    alignas(64) Value values[kBlock];
    alignas(64) Value values_before[kBlock];
    walk<Memory>(task, kBlock, [&](const Memory* now, const Memory* before, int n) {
        Decode<Memory, Value>::block(now, n, values);
        totals.add(read_block<Load>(values, n, trouble));
        add_within<Load>(values, n, needs, within);
        if (before) {
            Decode<Memory, Value>::block(before, n, values_before);
            totals.add(compare_block<Load>(values, values_before, n, tolerance_of(needs)));
            totals.equal += count_equal<Word>(now, before, n);
        }
    });
    return totals;
}

// The ends of a range as integers; false when no integer of the type lies inside.
template <class Integer>
bool integer_ends(double start, double end, Integer& low, Integer& high) {
    constexpr Integer kLeast = Integer(-1) < 0 ? Integer(uint64_t(1) << 63) : 0;
    constexpr Integer kMost = Integer(~uint64_t(kLeast));
    const double least = double(kLeast), beyond = Integer(-1) < 0 ? 0x1p63 : 0x1p64;
    start = __builtin_ceil(start);
    end = __builtin_floor(end);
    if (!(start <= end) || start >= beyond || end < least) return false;
    low = start < least ? kLeast : Integer(start);
    high = end >= beyond ? kMost : Integer(end);
    return true;
}

// 64-bit integers: sums as double, extremes, ranges and differences as integers.
template <class Integer>
Totals pass_long(const Task& task, const Needs* needs, int64_t* within, Integer& min, Integer& max) {
    Totals totals;
    bool trouble = false, first = true;
    alignas(64) double values[kBlock];
    walk<Integer>(task, kBlock, [&](const Integer* now, const Integer* before, int n) {
        Decode<Integer, double>::block(now, n, values);
        totals.add(read_block<LoadFloat64>(values, n, trouble));
        if (first) min = max = now[0];
        first = false;
        Integer least = min, most = max;
        for (int i = 0; i < n; ++i) {
            least = now[i] < least ? now[i] : least;
            most = now[i] > most ? now[i] : most;
        }
        min = least;
        max = most;
        for (int64_t r = 0; needs && r < needs->ranges; ++r) {
            Integer low, high;
            if (!integer_ends(needs->ends[2 * r], needs->ends[2 * r + 1], low, high)) continue;
            for (int i = 0; i < n; ++i) within[r] += now[i] >= low && now[i] <= high;
        }
        if (before) {
            totals.add(compare_integers(now, before, n, tolerance_of(needs)));
            totals.equal += count_equal<uint64_t>(now, before, n);
        }
    });
    return totals;
}

void finish_moments(const Totals& totals, int exponent, Result* result) {
    if (totals.count == 0) return;
    const double n = double(totals.count);
    const bool constant = totals.min == totals.max;  // then nothing needs rounding
    result->mean = __builtin_ldexp(constant ? totals.min : totals.sum / n, exponent);
    result->abs_mean = __builtin_ldexp(constant ? __builtin_fabs(totals.min) : totals.magnitudes / n, exponent);
    result->std = __builtin_ldexp(constant ? 0 : __builtin_sqrt(totals.deviations / n), exponent);
    result->l2 = __builtin_ldexp(__builtin_sqrt(totals.squares), exponent);
}

void finish_change(const Difference& difference, int exponent, Result* result) {
    if (difference.count == 0) return;
    const double n = double(difference.count);
    result->change_abs_mean = __builtin_ldexp(difference.sum / n, exponent);
    result->change_before_abs_mean = __builtin_ldexp(difference.before / n, exponent);
}

// float64 values near the ends of their range have squares, or sums, outside it. They are added again, each divided by
// a power of two, which is exact.
constexpr int kSafeExponent = 400;
constexpr int kTopExponent = 1024;

Totals pass_scaled(const Task& task, int exponent) {
    const double once = __builtin_ldexp(1.0, -exponent / 2), twice = __builtin_ldexp(1.0, -(exponent - exponent / 2));
    Totals totals;
    bool trouble = false;
    alignas(64) double values[kBlock];
    alignas(64) double values_before[kBlock];
    walk<double>(task, kBlock, [&](const double* now, const double* before, int n) {
        for (int i = 0; i < n; ++i) values[i] = now[i] * once * twice;
        totals.add(read_block<LoadFloat64>(values, n, trouble));
        if (!before) return;
        for (int i = 0; i < n; ++i) values_before[i] = before[i] * once * twice;
        totals.add(compare_block<LoadFloat64>(values, values_before, n, Tolerance{0, 0}));
    });
    return totals;
}

void finish(const Task& task, const Totals& totals, Result* result) {
    finish_moments(totals, 0, result);
    finish_change(totals.difference, 0, result);
    if (task.dtype != kFloat64) return;
    const double largest = -totals.min > totals.max ? -totals.min : totals.max;
    int exponent = 0;
    __builtin_frexp(largest, &exponent);
    if (exponent > kSafeExponent || exponent < -kSafeExponent) finish_moments(pass_scaled(task, exponent), exponent, result);
    if (!is_finite(totals.difference.sum) || !is_finite(totals.difference.before))
        finish_change(pass_scaled(task, kTopExponent).difference, kTopExponent, result);
}

template <class Integer>
void pass_long(const Task& task, const Needs* needs, Result* result, int64_t* within, Totals& totals) {
    Integer min = 0, max = 0;
    totals = pass_long<Integer>(task, needs, within, min, max);
    result->min.natural = uint64_t(min);
    result->max.natural = uint64_t(max);
}

template <int Format>
Totals pass_float8(const Task& task, const Needs* needs, int64_t* within) {
    return pass_decoded<Float8<Format>, LoadFloat32, uint8_t>(task, needs, within);
}

Totals pass_short(const Task& task, const Needs* needs, int64_t* within) {
    switch (task.dtype) {
        case kFloat32: return pass_direct<LoadFloat32, uint32_t>(task, needs, within);
        case kFloat64: return pass_direct<LoadFloat64, uint64_t>(task, needs, within);
        case kBfloat16: return pass_direct<LoadBfloat16, uint16_t>(task, needs, within);
#if defined(__F16C__)
        case kFloat16: return pass_direct<LoadFloat16, uint16_t>(task, needs, within);
#else
        case kFloat16: return pass_decoded<Float16, LoadFloat32, uint16_t>(task, needs, within);
#endif
        case kFloat8E4M3FN: return pass_float8<kFloat8E4M3FN>(task, needs, within);
        case kFloat8E5M2: return pass_float8<kFloat8E5M2>(task, needs, within);
        case kFloat8E4M3FNUZ: return pass_float8<kFloat8E4M3FNUZ>(task, needs, within);
        case kFloat8E5M2FNUZ: return pass_float8<kFloat8E5M2FNUZ>(task, needs, within);
        case kFloat8E8M0FNU: return pass_float8<kFloat8E8M0FNU>(task, needs, within);
        case kInt8: return pass_decoded<int8_t, LoadFloat32, uint8_t>(task, needs, within);
        case kInt16: return pass_decoded<int16_t, LoadFloat32, uint16_t>(task, needs, within);
        case kInt32: return pass_decoded<int32_t, LoadFloat64, uint32_t>(task, needs, within);
        case kUint8: return pass_decoded<uint8_t, LoadFloat32, uint8_t>(task, needs, within);
        case kUint16: return pass_decoded<uint16_t, LoadFloat32, uint16_t>(task, needs, within);
        case kUint32: return pass_decoded<uint32_t, LoadFloat64, uint32_t>(task, needs, within);
        default: return pass_decoded<Bool, LoadFloat32, uint8_t>(task, needs, within);
    }
}

}  // namespace

void TENSIGHT_VARIANT(const Task& task, const Needs* needs, Result* result, int64_t* within) {
    *result = Result();
    for (int64_t i = 0; needs && i < needs->ranges; ++i) within[i] = 0;
    Totals totals;
    if (task.dtype == kInt64) {
        pass_long<int64_t>(task, needs, result, within, totals);
    } else if (task.dtype == kUint64) {
        pass_long<uint64_t>(task, needs, result, within, totals);
    } else {
        totals = pass_short(task, needs, within);
        if (task.dtype >= kInt8) {
            result->min.integer = int64_t(totals.min);
            result->max.integer = int64_t(totals.max);
        } else {
            result->min.real = totals.min + 0.0;  // -0 becomes 0, whichever came first
            result->max.real = totals.max + 0.0;
        }
    }
    finish(task, totals, result);
    result->nan = totals.nan;
    result->pos_inf = totals.pos_inf;
    result->neg_inf = totals.neg_inf;
    result->zero = totals.zero;
    result->negative = totals.negative;
    result->positive = totals.count - totals.zero - totals.negative;
    result->count = totals.count + totals.nan + totals.pos_inf + totals.neg_inf;
    result->change_count = totals.difference.count;
    result->change_abs_max = totals.difference.largest;
    result->moved = totals.difference.moved;
    result->equal = totals.equal;
}

}  // namespace tensight
