// bfloat16 has twice the values per byte, so the quick loop finds extremes and counts without making floats of them:
// read as integers in the right order, a whole vector at a time.

typedef int16_t ShortVector __attribute__((vector_size(TENSIGHT_VECTOR_BYTES)));
constexpr int kShorts = TENSIGHT_VECTOR_BYTES / 2;

// Bits of a bfloat16 as an integer in the same order: -0 is -1, 0 is 0. The mapping is its own inverse.
INLINE ShortVector ordered(ShortVector bits) { return bits ^ ((bits >> 15) & 0x7fff); }
INLINE float unordered(int16_t key) { return from_bits(uint32_t(uint16_t(key < 0 ? key ^ 0x7fff : key)) << 16); }

INLINE int64_t total(ShortVector v) {
    int32_t sum = 0;
    for (int i = 0; i < kShorts; ++i) sum += uint16_t(v[i]);
    return sum;
}

INLINE int16_t least_of(ShortVector v) {
    int16_t least = v[0];
    for (int i = 1; i < kShorts; ++i) least = v[i] < least ? v[i] : least;
    return least;
}

template <>
void read_finite<LoadBfloat16>(const Bfloat16* p, int n, Block& block) {
    ShortVector least = ordered(ShortVector{} + int16_t(p->bits)), most = least;
    ShortVector zeros = {}, negatives = {};
    SumsOfFloats sums;
    int i = 0;
    for (; i + kShorts <= n; i += kShorts) {
        const ShortVector bits = load<ShortVector>(p + i);
        prefetch(p + i);
        const ShortVector keys = ordered(bits);
        least = keys < least ? keys : least;
        most = keys > most ? keys : most;
        count(zeros, (bits & 0x7fff) == 0);
        count(negatives, keys < -1);
        const WordVector pairs = (WordVector)bits;  // each holds two values; their order does not matter
        add_made(sums, (FloatVector)(pairs << 16));
        add_made(sums, (FloatVector)(pairs & 0xffff0000u));
    }
    sums.into(block);
    block.count = n;
    block.zero = total(zeros);
    block.negative = total(negatives);
    block.min = unordered(least_of(least));
    block.max = unordered(~least_of(~most));
    for (; i < n; ++i) add_scalar(LoadBfloat16::scalar(p + i), block);
}
