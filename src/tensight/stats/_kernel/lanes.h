// Vectors of the width this variant was compiled for. They are the vector types of GCC and Clang, so the same code
// gives AVX-512, AVX2, SSE2, NEON or plain scalar instructions; intrinsics stand only where the compiler would
// not find the one instruction that does it.

typedef float FloatVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
typedef double DoubleVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
typedef int32_t IntVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
typedef uint32_t WordVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
typedef int64_t LongVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
typedef uint16_t HalfWidthShorts __attribute__((vector_size(TENSIGHT_VECTOR_BYTES / 2)));

constexpr int kFloats = TENSIGHT_VECTOR_BYTES / 4;
constexpr int kDoubles = TENSIGHT_VECTOR_BYTES / 8;

template <class Vector>
inline Vector load(const void* memory) {
    Vector vector;
    __builtin_memcpy(&vector, memory, sizeof vector);
    return vector;
}

// The first and the second half of a vector of floats, as doubles.
#if defined(__AVX512F__)
inline DoubleVector low(FloatVector v) { return _mm512_cvtps_pd(_mm512_castps512_ps256(v)); }
inline DoubleVector high(FloatVector v) {
    return _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
}
#elif defined(__AVX__)
inline DoubleVector low(FloatVector v) { return _mm256_cvtps_pd(_mm256_castps256_ps128(v)); }
inline DoubleVector high(FloatVector v) { return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)); }
#elif defined(__SSE2__)
inline DoubleVector low(FloatVector v) { return _mm_cvtps_pd(v); }
inline DoubleVector high(FloatVector v) { return _mm_cvtps_pd(_mm_movehl_ps(v, v)); }
#else
typedef float HalfWidthFloats __attribute__((vector_size(TENSIGHT_VECTOR_BYTES / 2)));
inline DoubleVector low(FloatVector v) {
    return __builtin_convertvector(load<HalfWidthFloats>(&v), DoubleVector);
}
inline DoubleVector high(FloatVector v) {
    return __builtin_convertvector(load<HalfWidthFloats>(reinterpret_cast<const float*>(&v) + kFloats / 2), DoubleVector);
}
#endif

inline FloatVector magnitude(FloatVector v) { return (FloatVector)((IntVector)v & 0x7fffffff); }
inline DoubleVector magnitude(DoubleVector v) { return (DoubleVector)((LongVector)v & 0x7fffffffffffffff); }

// NaN compares false, so that a NaN on the left leaves the right.
template <class Vector>
inline Vector lesser(Vector a, Vector b) {
    return a < b ? a : b;
}
template <class Vector>
inline Vector greater(Vector a, Vector b) {
    return a > b ? a : b;
}

template <class Vector>
inline double total(Vector v) {
    double sum = 0;
    for (size_t i = 0; i < sizeof v / sizeof v[0]; ++i) sum += v[i];
    return sum;
}

// How values of a dtype come into a vector of floats (or doubles) straight from memory.
struct LoadFloat32 {
    using Memory = float;
    using Value = float;
    static FloatVector vector(const Memory* p) { return load<FloatVector>(p); }
    static Value scalar(const Memory* p) { return *p; }
};

struct LoadFloat64 {
    using Memory = double;
    using Value = double;
    static DoubleVector vector(const Memory* p) { return load<DoubleVector>(p); }
    static Value scalar(const Memory* p) { return *p; }
};

struct LoadBfloat16 {
    using Memory = Bfloat16;
    using Value = float;
    static FloatVector vector(const Memory* p) {
        return (FloatVector)(__builtin_convertvector(load<HalfWidthShorts>(p), WordVector) << 16);
    }
    static Value scalar(const Memory* p) { return from_bits(uint32_t(p->bits) << 16); }
};

#if defined(__F16C__)
struct LoadFloat16 {
    using Memory = Float16;
    using Value = float;
    static FloatVector vector(const Memory* p) {
#if defined(__AVX512F__)
        return _mm512_cvtph_ps(load<__m256i>(p));
#else
        return _mm256_cvtph_ps(load<__m128i>(p));
#endif
    }
    static Value scalar(const Memory* p) { return float16_value(p->bits); }
};
#endif
