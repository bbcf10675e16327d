// The sums, extremes and counts of one block: at most kBlock values that lie side by side.
//
// A block is first read as if all its values were finite. The sum of magnitudes tells afterwards: it is finite exactly
// when they were (or, for float64, when they were not near its end). If not, the block is read once more, from the
// first-level cache, by the careful loop, which also counts NaN and infinities. After a block with such values the
// next one goes to the careful loop at once, so that a tensor full of NaN costs one reading too.

struct Block {
    int64_t count = 0;  // finite values
    int64_t nan = 0, pos_inf = 0, neg_inf = 0, zero = 0, negative = 0;
    double sum = 0, squares = 0;
    double magnitudes = 0;  // sum of abs(value)
    double deviations = 0;  // sum of (value - mean)²
    double min = 0, max = 0;
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
INLINE bool is_finite(Value value) {
    return __builtin_fabs(value) <= VectorOf<Value>::kLargest;
}

// Sums over the lanes of one block, always of doubles. The halves of a vector of floats have sums of their own, so
// that no addition waits for the one before.
struct Sums {
    DoubleVector sum = {}, squares = {}, magnitudes = {};

    INLINE void add(DoubleVector value) {
        sum += value;
        squares = multiply_add(value, value, squares);
        magnitudes += magnitude(value);
    }
};

struct SumsOfFloats {
    Sums low, high;

    INLINE void add(const float* p) {
        low.add(widened(p));
        high.add(widened(p + kFloats / 2));
    }
    INLINE void into(Block& block) const {
        block.sum = total(low.sum + high.sum);
        block.squares = total(low.squares + high.squares);
        block.magnitudes = total(low.magnitudes + high.magnitudes);
    }
};

struct SumsOfDoubles : Sums {
    INLINE void into(Block& block) const {
        block.sum = total(sum);
        block.squares = total(squares);
        block.magnitudes = total(magnitudes);
    }
};

INLINE SumsOfFloats sums_of(float) { return {}; }
INLINE SumsOfDoubles sums_of(double) { return {}; }

// A vector as it was read from `p`, and one that was changed since.
template <class Memory>
INLINE void add_read(SumsOfFloats& sums, const Memory* p, FloatVector v) {
    Slot slot;
    sums.add(held(p, v, slot));
}
INLINE void add_made(SumsOfFloats& sums, FloatVector v) {
    Slot slot;
    sums.add(slot.hold(v));
}
INLINE void add_read(SumsOfDoubles& sums, const double*, DoubleVector v) { sums.add(v); }
INLINE void add_made(SumsOfDoubles& sums, DoubleVector v) { sums.add(v); }

INLINE void add_scalar(double value, Block& block) {
    if (value < block.min) block.min = value;
    if (value > block.max) block.max = value;
    block.zero += value == 0;
    block.negative += value < 0;
    block.sum += value;
    block.squares += value * value;
    block.magnitudes += __builtin_fabs(value);
}

template <class Value>
INLINE void add_careful_scalar(Value value, Block& block) {
    if (is_finite(value)) {
        ++block.count;
        add_scalar(value, block);
    } else {
        ++(value != value ? block.nan : value > 0 ? block.pos_inf : block.neg_inf);
    }
}

template <class Values>
INLINE void add_extremes(Values least, Values most, Block& block) {
    auto low = least[0], high = most[0];
    for (size_t lane = 1; lane < sizeof least / sizeof least[0]; ++lane) {
        low = least[lane] < low ? least[lane] : low;
        high = most[lane] > high ? most[lane] : high;
    }
    if (low < block.min) block.min = low;
    if (high > block.max) block.max = high;
}

template <class Load>
void read_finite(const typename Load::Memory* p, int n, Block& block) {
    using Value = typename Load::Value;
    using Values = typename VectorOf<Value>::Values;
    using Counts = typename VectorOf<Value>::Counts;
    constexpr int kLanes = sizeof(Values) / sizeof(Value);

    const Value first = Load::scalar(p);
    Values least = Values{} + first, most = least;
    Counts zeros = {}, negatives = {};
    auto sums = sums_of(Value());
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const Values v = Load::vector(p + i);
        prefetch(p + i);
        least = lesser(v, least);
        most = greater(v, most);
        count(zeros, v == 0);
        count(negatives, v < 0);
        add_read(sums, p + i, v);
    }
    sums.into(block);
    block.count = n;
    block.zero = total(zeros);
    block.negative = total(negatives);
    block.min = block.max = first;
    add_extremes(least, most, block);
    for (; i < n; ++i) add_scalar(Load::scalar(p + i), block);
}

template <class Load>
void read_carefully(const typename Load::Memory* p, int n, Block& block) {
    using Value = typename Load::Value;
    using Values = typename VectorOf<Value>::Values;
    using Counts = typename VectorOf<Value>::Counts;
    constexpr int kLanes = sizeof(Values) / sizeof(Value);
    constexpr Value kLargest = VectorOf<Value>::kLargest;
    const Value kInfinity = __builtin_inf();

    const Values above = Values{} + kInfinity, below = -above;
    Values least = above, most = below;
    Counts zeros = {}, negatives = {}, good = {}, nans = {}, infinities = {};
    auto sums = sums_of(Value());
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const Values v = Load::vector(p + i);
        prefetch(p + i);
        const auto finite = magnitude(v) <= kLargest;
        count(good, finite);
        count(nans, v != v);
        count(infinities, v == kInfinity);
        count(zeros, v == 0);
        count(negatives, v < 0);
        least = lesser(finite ? v : above, least);
        most = greater(finite ? v : below, most);
        add_made(sums, finite ? v : Values{});
    }
    sums.into(block);
    block.count = total(good);
    block.nan = total(nans);
    block.pos_inf = total(infinities);
    block.neg_inf = i - block.count - block.nan - block.pos_inf;
    block.zero = total(zeros);
    block.negative = total(negatives) - block.neg_inf;
    block.min = kInfinity;
    block.max = -kInfinity;
    add_extremes(least, most, block);
    for (; i < n; ++i) add_careful_scalar(Load::scalar(p + i), block);
}

// The sum of squares around the mean of the `finite` values of a block, seen from one of them: values far from zero
// against their spread lose its digits in their squares, but not in the squares of their distances.
template <class Load>
double deviations_from(double origin, const typename Load::Memory* p, int n, int64_t finite) {
    using Value = typename Load::Value;
    using Values = typename VectorOf<Value>::Values;
    constexpr int kLanes = sizeof(Values) / sizeof(Value);
    constexpr Value kLargest = VectorOf<Value>::kLargest;

    const Values origins = Values{} + Value(origin);
    const DoubleVector shift = DoubleVector{} + origin;
    DoubleVector sums = {}, squares = {};
    const auto add = [&](DoubleVector value) {
        const DoubleVector distance = value - shift;
        sums += distance;
        squares = multiply_add(distance, distance, squares);
    };
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const Values v = Load::vector(p + i);
        const Values clean = magnitude(v) <= kLargest ? v : origins;
        if constexpr (kLanes == kFloats) {
            Slot slot;
            const float* held = slot.hold(clean);
            add(widened(held));
            add(widened(held + kFloats / 2));
        } else {
            add(clean);
        }
    }
    double sum = total(sums), square = total(squares);
    for (; i < n; ++i) {
        const Value value = Load::scalar(p + i);
        const double distance = is_finite(value) ? value - origin : 0;
        sum += distance;
        square += distance * distance;
    }
    return square - sum * (sum / double(finite));
}

template <class Load>
constexpr double kNarrow = 1e-4;  // variance against mean square, below which digits would be lost

// What the sums of a block tell of its spread.
template <class Load>
void add_deviations(const typename Load::Memory* p, int n, Block& block) {
    if (block.count == 0) return;
    block.deviations = block.squares - block.sum * (block.sum / double(block.count));
    if (block.deviations < kNarrow<Load> * block.squares) {
        block.deviations = deviations_from<Load>(block.min, p, n, block.count);
        if (block.deviations < 0) block.deviations = 0;
    }
}

// `trouble` remembers from block to block whether the last one had values that are not finite.
template <class Load>
Block read_block(const typename Load::Memory* p, int n, bool& trouble) {
    Block block;
    if (!trouble) read_finite<Load>(p, n, block);
    if (trouble || !is_finite(block.magnitudes)) {
        block = Block();
        read_carefully<Load>(p, n, block);
        trouble = block.count < n;
    }
    add_deviations<Load>(p, n, block);
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
        count(inside, (v >= start) & (v <= end));
    }
    int64_t found = total(inside);
    for (; i < n; ++i) {
        const Value value = Load::scalar(p + i);
        found += value >= start && value <= end;
    }
    return found;
}
