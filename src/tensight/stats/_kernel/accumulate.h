// The sums, extremes and counts of one block: at most kBlock values that lie side by side.
//
// A block is first read as if all its values were finite. The sum of magnitudes tells afterwards: it is finite exactly
// when they were (or, for float64, when they were not near its end). If not, the block is read once more, from the
// first-level cache, by the careful loop, which also counts NaN and infinities. After a block with such values the
// next one goes to the careful loop at once, so that a tensor full of NaN costs one reading too.

struct Block {
    int64_t count = 0;  // finite values
    int64_t nan = 0, pos_inf = 0, neg_inf = 0, zero = 0, negative = 0;
    double shift = 0;       // one of the values: sums below are of (value - shift), which keeps their digits
    double sum = 0;         // of value - shift
    double squares = 0;     // of (value - shift)²
    double magnitudes = 0;  // of abs(value)
    double min = 0, max = 0;
};

// Sums over the lanes of one block.
struct Sums {
    DoubleVector sum = {}, squares = {}, magnitudes = {};

    inline void add(DoubleVector value, DoubleVector shift) {
        const DoubleVector distance = value - shift;
        sum += distance;
        squares += distance * distance;
        magnitudes += magnitude(value);
    }
    inline void add(FloatVector value, DoubleVector shift) {
        add(low(value), shift);
        add(high(value), shift);
    }
    inline void into(Block& block) const {
        block.sum += total(sum);
        block.squares += total(squares);
        block.magnitudes += total(magnitudes);
    }
};

template <class Value>
struct VectorOf;
template <>
struct VectorOf<float> {
    using Values = FloatVector;
    using Counts = IntVector;
    static constexpr float kLargest = __FLT_MAX__;
};
template <>
struct VectorOf<double> {
    using Values = DoubleVector;
    using Counts = LongVector;
    static constexpr double kLargest = __DBL_MAX__;
};

template <class Value>
inline bool is_finite(Value value) {
    return __builtin_fabs(value) <= VectorOf<Value>::kLargest;
}

template <class Load>
void read_finite(const typename Load::Memory* p, int n, Block& block) {
    using Value = typename Load::Value;
    using Values = typename VectorOf<Value>::Values;
    using Counts = typename VectorOf<Value>::Counts;
    constexpr int kLanes = sizeof(Values) / sizeof(Value);

    const Value first = Load::scalar(p);
    const DoubleVector shift = DoubleVector{} + double(first);
    Values least = Values{} + first, most = least;
    Counts zeros = {}, negatives = {};
    Sums sums;
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const Values v = Load::vector(p + i);
        least = lesser(v, least);
        most = greater(v, most);
        zeros -= Counts(v == 0);
        negatives -= Counts(v < 0);
        sums.add(v, shift);
    }
    sums.into(block);
    block.count = n;
    block.shift = first;
    block.zero = int64_t(total(zeros));
    block.negative = int64_t(total(negatives));
    block.min = block.max = first;
    for (int lane = 0; lane < kLanes; ++lane) {
        if (least[lane] < block.min) block.min = least[lane];
        if (most[lane] > block.max) block.max = most[lane];
    }
    for (; i < n; ++i) {
        const double value = Load::scalar(p + i), distance = value - block.shift;
        if (value < block.min) block.min = value;
        if (value > block.max) block.max = value;
        block.zero += value == 0;
        block.negative += value < 0;
        block.sum += distance;
        block.squares += distance * distance;
        block.magnitudes += __builtin_fabs(value);
    }
}

// Some finite value of a block, or 0 when there is none.
template <class Load>
typename Load::Value any_finite(const typename Load::Memory* p, int n) {
    using Value = typename Load::Value;
    using Values = typename VectorOf<Value>::Values;
    constexpr int kLanes = sizeof(Values) / sizeof(Value);
    constexpr Value kLargest = VectorOf<Value>::kLargest;

    int i = 0;
    for (; i < n && i < kLanes; ++i)
        if (is_finite(Load::scalar(p + i))) return Load::scalar(p + i);
    const Values none = Values{} - __builtin_inf();
    Values most = none;
    for (; i + kLanes <= n; i += kLanes) {
        const Values v = Load::vector(p + i);
        most = greater(magnitude(v) <= kLargest ? v : none, most);
    }
    for (int lane = 0; lane < kLanes; ++lane)
        if (is_finite(Value(most[lane]))) return most[lane];
    for (; i < n; ++i)
        if (is_finite(Load::scalar(p + i))) return Load::scalar(p + i);
    return 0;
}

template <class Load>
void read_carefully(const typename Load::Memory* p, int n, Block& block) {
    using Value = typename Load::Value;
    using Values = typename VectorOf<Value>::Values;
    using Counts = typename VectorOf<Value>::Counts;
    constexpr int kLanes = sizeof(Values) / sizeof(Value);
    constexpr Value kLargest = VectorOf<Value>::kLargest;
    const Value kInfinity = __builtin_inf();

    // A value that is not finite is replaced by the shift: it then adds nothing to the sums, leaves the extremes
    // alone, and its share of the magnitudes is known.
    const Value replacement = any_finite<Load>(p, n);
    const Values replacements = Values{} + replacement;
    const DoubleVector shift = DoubleVector{} + double(replacement);
    Values least = replacements, most = replacements;
    Counts zeros = {}, negatives = {}, bad = {}, nans = {}, infinities = {};
    Sums sums;
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const Values v = Load::vector(p + i);
        const auto finite = magnitude(v) <= kLargest;
        const Values clean = finite ? v : replacements;
        bad -= ~Counts(finite);
        nans -= Counts(v != v);
        infinities -= Counts(v == kInfinity);
        zeros -= Counts(v == 0);
        negatives -= Counts(v < 0);
        least = lesser(clean, least);
        most = greater(clean, most);
        sums.add(clean, shift);
    }
    sums.into(block);
    int64_t replaced = int64_t(total(bad));
    block.nan = int64_t(total(nans));
    block.pos_inf = int64_t(total(infinities));
    block.neg_inf = replaced - block.nan - block.pos_inf;
    block.zero = int64_t(total(zeros));
    block.negative = int64_t(total(negatives)) - block.neg_inf;
    block.magnitudes -= double(replaced) * __builtin_fabs(double(replacement));
    block.shift = replacement;
    block.min = block.max = replacement;
    for (int lane = 0; lane < kLanes; ++lane) {
        if (least[lane] < block.min) block.min = least[lane];
        if (most[lane] > block.max) block.max = most[lane];
    }
    for (; i < n; ++i) {
        const Value raw = Load::scalar(p + i);
        if (!is_finite(raw)) {
            ++replaced;
            ++(raw != raw ? block.nan : raw > 0 ? block.pos_inf : block.neg_inf);
            continue;
        }
        const double value = raw, distance = value - block.shift;
        if (value < block.min) block.min = value;
        if (value > block.max) block.max = value;
        block.zero += value == 0;
        block.negative += value < 0;
        block.sum += distance;
        block.squares += distance * distance;
        block.magnitudes += __builtin_fabs(value);
    }
    block.count = n - replaced;
    if (block.count == 0) block.magnitudes = 0;
}

// `trouble` remembers from block to block whether the last one had values that are not finite.
template <class Load>
Block read_block(const typename Load::Memory* p, int n, bool& trouble) {
    Block block;
    if (!trouble) {
        read_finite<Load>(p, n, block);
        if (__builtin_expect(is_finite(block.magnitudes), 1)) return block;
        block = Block();
    }
    read_carefully<Load>(p, n, block);
    trouble = block.count < n;
    return block;
}

// How many values lie in [start, end]; the ends are rounded inwards and finite, so that comparing in the values'
// own type is exact and infinities stay outside.
template <class Load>
int64_t count_within(const typename Load::Memory* p, int n, typename Load::Value start, typename Load::Value end) {
    using Value = typename Load::Value;
    using Values = typename VectorOf<Value>::Values;
    using Counts = typename VectorOf<Value>::Counts;
    constexpr int kLanes = sizeof(Values) / sizeof(Value);

    Counts inside = {};
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const Values v = Load::vector(p + i);
        inside -= Counts(v >= start) & Counts(v <= end);
    }
    int64_t count = int64_t(total(inside));
    for (; i < n; ++i) {
        const Value value = Load::scalar(p + i);
        count += value >= start && value <= end;
    }
    return count;
}
