// What the parts of the kernel agree on. Python reads Result and writes Task: see native.py.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tensight {

// The numbers are part of the interface: native.py has the same list.
enum Dtype : int32_t {
    kFloat32 = 0,
    kFloat64 = 1,
    kFloat16 = 2,
    kBfloat16 = 3,
    kFloat8E4M3FN = 4,
    kFloat8E5M2 = 5,
    kFloat8E4M3FNUZ = 6,
    kFloat8E5M2FNUZ = 7,
    kFloat8E8M0FNU = 8,
    kInt8 = 9,
    kInt16 = 10,
    kInt32 = 11,
    kInt64 = 12,
    kUint8 = 13,
    kUint16 = 14,
    kUint32 = 15,
    kUint64 = 16,
    kBool = 17,
    kDtypes = 18,
};

constexpr int kMaxRank = 64;

// Ranges and tolerances of one call; `ranges` are pairs of doubles, both ends included.
struct Needs {
    int64_t ranges;
    double rtol;
    double atol;
    double ends[];
};

// One tensor. Strides count elements, not bytes. `before` is null or an earlier copy of the same shape.
struct Task {
    const void* now;
    const void* before;
    int32_t dtype;
    int32_t rank;
    const int64_t* shape;
    const int64_t* strides;
    const int64_t* before_strides;
};

// Either member, by dtype: 64-bit integers have extremes that double cannot hold.
union Extreme {
    double real;
    int64_t integer;
    uint64_t natural;
};

// Followed in memory by one int64_t per range.
struct Result {
    int64_t count, nan, pos_inf, neg_inf, zero, negative, positive;
    Extreme min, max;
    double mean, abs_mean, std, l2;
    int64_t change_count;
    double change_abs_mean, change_abs_max, change_before_abs_mean;
    int64_t moved, equal;
};

static_assert(sizeof(Result) == 19 * 8, "native.py reads 19 words");

// One compiled variant of the pass, for one set of instructions.
using Pass = void (*)(const Task& task, const Needs* needs, Result* result, int64_t* within);

void pass_baseline(const Task& task, const Needs* needs, Result* result, int64_t* within);
#if defined(__x86_64__)
void pass_avx2(const Task& task, const Needs* needs, Result* result, int64_t* within);
void pass_avx512(const Task& task, const Needs* needs, Result* result, int64_t* within);
#endif

}  // namespace tensight
