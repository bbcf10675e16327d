// Vectors of the width this variant was compiled for. They are the vector types of GCC and Clang, so the same code
// gives AVX-512, AVX2, SSE2, NEON or plain scalar instructions; intrinsics stand only where the compiler would
// not find the one instruction that does it.

// The accumulators must stay in registers: a call in the way would put them into memory.
#define INLINE inline __attribute__((always_inline))

typedef float FloatVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
typedef double DoubleVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
typedef int32_t IntVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
typedef uint32_t WordVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
typedef int64_t LongVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
typedef uint16_t HalfWidthShorts __attribute__((vector_size(TENSIGHT_VECTOR_BYTES / 2)));

constexpr int kFloats = TENSIGHT_VECTOR_BYTES / 4;
constexpr int kDoubles = TENSIGHT_VECTOR_BYTES / 8;

template <class Vector>
INLINE Vector load(const void* memory) {
    Vector vector;
    __builtin_memcpy(&vector, memory, sizeof vector);
    return vector;
}

// The loops compute long enough on a cache line that the processor, by itself, fetches too late.
INLINE void prefetch(const void* p) { __builtin_prefetch(static_cast<const char*>(p) + 2048); }

// Half a vector of floats in memory, as doubles. From memory this is one cheap instruction, from a register three: a
// vector that was computed is stored first.
#if defined(__AVX512F__)
INLINE DoubleVector widened(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
#elif defined(__AVX__)
INLINE DoubleVector widened(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
#else
typedef float HalfWidthFloats __attribute__((vector_size(TENSIGHT_VECTOR_BYTES / 2)));
INLINE DoubleVector widened(const float* p) { return __builtin_convertvector(load<HalfWidthFloats>(p), DoubleVector); }
#endif

struct Slot {
    alignas(TENSIGHT_VECTOR_BYTES) float values[kFloats];

    INLINE const float* hold(FloatVector v) {
        __builtin_memcpy(values, &v, sizeof v);
        asm("" : "+m"(values));  // else the compiler sees through the memory
        return values;
    }
};

// Where the floats of `v`, read from `p`, lie in memory.
INLINE const float* held(const float* p, FloatVector, Slot&) { return p; }
template <class Memory>
INLINE const float* held(const Memory*, FloatVector v, Slot& slot) {
    return slot.hold(v);
}

INLINE FloatVector magnitude(FloatVector v) { return (FloatVector)((IntVector)v & 0x7fffffff); }
INLINE DoubleVector magnitude(DoubleVector v) { return (DoubleVector)((LongVector)v & 0x7fffffffffffffff); }

// NaN compares false, so that a NaN on the left leaves the right.
template <class Vector>
INLINE Vector lesser(Vector a, Vector b) {
    return a < b ? a : b;
}
template <class Vector>
INLINE Vector greater(Vector a, Vector b) {
    return a > b ? a : b;
}

// Counts, lane by lane, where a comparison held.
template <class Counts, class Mask>
INLINE void count(Counts& counts, Mask held) {
#if defined(__AVX512F__)
    counts = held ? counts + 1 : counts;  // one masked addition
#else
    counts -= Counts(held);  // true is -1
#endif
}

INLINE DoubleVector multiply_add(DoubleVector a, DoubleVector b, DoubleVector c) {
#if defined(__AVX512F__)
    return _mm512_fmadd_pd(a, b, c);
#elif defined(__FMA__)
    return _mm256_fmadd_pd(a, b, c);
#else
    return a * b + c;
#endif
}

INLINE double total(DoubleVector v) {
    double sum = 0;
    for (int i = 0; i < kDoubles; ++i) sum += v[i];
    return sum;
}
INLINE int64_t total(LongVector v) {
    int64_t sum = 0;
    for (int i = 0; i < kDoubles; ++i) sum += v[i];
    return sum;
}
INLINE int64_t total(IntVector v) {
    int32_t sum = 0;  // lanes count within a block
    for (int i = 0; i < kFloats; ++i) sum += v[i];
    return sum;
}

// How values of a dtype come into a vector of floats (or doubles) straight from memory.
struct LoadFloat32 {
    using Memory = float;
    using Value = float;
    static INLINE FloatVector vector(const Memory* p) { return load<FloatVector>(p); }
    static INLINE Value scalar(const Memory* p) { return *p; }
};

struct LoadFloat64 {
    using Memory = double;
    using Value = double;
    static INLINE DoubleVector vector(const Memory* p) { return load<DoubleVector>(p); }
    static INLINE Value scalar(const Memory* p) { return *p; }
};

struct LoadBfloat16 {
    using Memory = Bfloat16;
    using Value = float;
    static INLINE FloatVector vector(const Memory* p) {
#if defined(__AVX512F__)
        const WordVector words = (WordVector)_mm512_cvtepu16_epi32(load<__m256i>(p));
#elif defined(__AVX2__)
        const WordVector words = (WordVector)_mm256_cvtepu16_epi32(load<__m128i>(p));
#else
        const WordVector words = __builtin_convertvector(load<HalfWidthShorts>(p), WordVector);
#endif
        return (FloatVector)(words << 16);
    }
    static INLINE Value scalar(const Memory* p) { return from_bits(uint32_t(p->bits) << 16); }
};

#if defined(__F16C__)
struct LoadFloat16 {
    using Memory = Float16;
    using Value = float;
    static INLINE FloatVector vector(const Memory* p) {
#if defined(__AVX512F__)
        return _mm512_cvtph_ps(load<__m256i>(p));
#else
        return _mm256_cvtph_ps(load<__m128i>(p));
#endif
    }
    static INLINE Value scalar(const Memory* p) { return float16_value(p->bits); }
};
#endif
