// bfloat16 has twice the values per byte, so the quick loop does two things otherwise. Extremes and counts are found
// without making floats of the values: read as integers, a whole vector at a time. And 2 x kVectors values are summed as
// floats before the sum is widened: that loses less than one part in a million of the sum of their magnitudes, where
// the values themselves are known to one part in 256. Blocks whose squares a float can't hold are read carefully.

typedef int16_t ShortVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
typedef uint16_t UnsignedShortVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
constexpr int kShorts = TENSIGHT_VECTOR_BYTES / 2;
constexpr int kVectors = 8;
constexpr float kLargestSquared = 0x1p60f, kSmallestSquared = 0x1p-50f;

template <>
constexpr double kNarrow<LoadBfloat16> = 1e-2;

// How many lanes were zero, or below zero. NaN and infinities are counted as they come: their block is read again.
struct ShortCounts {
#if defined(__AVX512BW__)
    int64_t zeros = 0, negatives = 0;

    INLINE void add(ShortVector bits) {
        zeros += __builtin_popcount(_mm512_testn_epi16_mask((__m512i)bits, _mm512_set1_epi16(0x7fff)));
        negatives += __builtin_popcount(_mm512_cmpgt_epu16_mask((__m512i)bits, _mm512_set1_epi16(-0x8000)));
    }
    INLINE void into(Block& block) const {
        block.zero = zeros;
        block.negative = negatives;
    }
#else
    ShortVector zeros = {}, negatives = {};

    INLINE void add(ShortVector bits) {
        count(zeros, (bits & 0x7fff) == 0);
        count(negatives, (bits < 0) & (bits != -0x8000));
    }
    static INLINE int64_t total(ShortVector v) {
        int32_t sum = 0;
        for (int i = 0; i < kShorts; ++i) sum += uint16_t(v[i]);
        return sum;
    }
    INLINE void into(Block& block) const {
        block.zero = total(zeros);
        block.negative = total(negatives);
    }
#endif
};

// Bits in the order of integers are in the order of the values above zero, and in the opposite one below.
struct ShortExtremes {
    ShortVector most;                   // the largest value, where there is one that is not negative
    UnsignedShortVector least, lowest;  // the smallest value, where one is negative; the one nearest to zero, where all are

    explicit ShortExtremes(uint16_t bits) : most(ShortVector{} + int16_t(bits)), least(UnsignedShortVector{} + bits), lowest(least) {}

    INLINE void add(ShortVector bits) {
        const UnsignedShortVector positions = (UnsignedShortVector)bits;
        most = bits > most ? bits : most;
        least = positions > least ? positions : least;
        lowest = positions < lowest ? positions : lowest;
    }
    INLINE void into(Block& block) const {
        int16_t top = most[0];
        uint16_t bottom = least[0], nearest = lowest[0];
        for (int i = 1; i < kShorts; ++i) {
            top = most[i] > top ? most[i] : top;
            bottom = least[i] > bottom ? least[i] : bottom;
            nearest = lowest[i] < nearest ? lowest[i] : nearest;
        }
        const auto value = [](uint16_t bits) { return from_bits(uint32_t(bits) << 16); };
        block.max = value(top < 0 ? nearest : uint16_t(top));
        block.min = value(bottom & 0x8000 ? bottom : nearest);
    }
};

INLINE FloatVector multiply_add(FloatVector a, FloatVector b, FloatVector c) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

struct ShortSums {
    FloatVector sum = {}, squares = {}, magnitudes = {};

    INLINE void add(FloatVector value) {
        sum += value;
        squares = multiply_add(value, value, squares);
        magnitudes += magnitude(value);
    }
    INLINE void add(ShortVector bits) {
        const WordVector pairs = (WordVector)bits;  // each holds two values; their order does not matter
        add((FloatVector)(pairs << 16));
        add((FloatVector)(pairs & 0xffff0000u));
    }
};

struct WideSum {
    DoubleVector low = {}, high = {};

    INLINE void add(FloatVector v) {
        Slot slot;
        const float* values = slot.hold(v);
        low += widened(values);
        high += widened(values + kFloats / 2);
    }
};

template <>
void read_finite<LoadBfloat16>(const Bfloat16* p, int n, Block& block) {
    ShortExtremes extremes(p->bits);
    ShortCounts counts;
    WideSum sum, squares, magnitudes;
    int i = 0;
    const auto add = [&](int vectors) {
        ShortSums sums;
        for (int k = 0; k < vectors; ++k, i += kShorts) {
            const ShortVector bits = load<ShortVector>(p + i);
            prefetch(p + i);
            extremes.add(bits);
            counts.add(bits);
            sums.add(bits);
        }
        sum.add(sums.sum);
        squares.add(sums.squares);
        magnitudes.add(sums.magnitudes);
    };
    while (i + kVectors * kShorts <= n) add(kVectors);
    while (i + kShorts <= n) add(1);
    block.count = n;
    counts.into(block);
    block.sum = total(sum.low + sum.high);
    block.squares = total(squares.low + squares.high);
    block.magnitudes = total(magnitudes.low + magnitudes.high);
    extremes.into(block);
    const double largest = block.max > -block.min ? block.max : -block.min;
    if (largest > kLargestSquared || (largest < kSmallestSquared && largest > 0)) block.magnitudes = __builtin_inf();
    for (; i < n; ++i) add_scalar(LoadBfloat16::scalar(p + i), block);
}
