// One block against the same block of an earlier copy. As in accumulate.h, the quick loop takes all values for finite
// and its sums tell whether they were. All is judged as double, in the order of operations of the reference:
// a value has moved when abs(now - before) > atol + rtol * abs(before).

struct Difference {
    int64_t count = 0;   // finite in both
    double sum = 0;      // of abs(now - before)
    double largest = 0;  // of abs(now - before)
    double before = 0;   // of abs(before)
    int64_t moved = 0;
};

struct Tolerance {
    double rtol, atol;
};

INLINE void compare_one(double now, double before, Tolerance tolerance, Difference& difference) {
    if (is_finite(now) && is_finite(before)) {
        const double distance = __builtin_fabs(now - before), size = __builtin_fabs(before);
        ++difference.count;
        difference.sum += distance;
        difference.before += size;
        difference.moved += distance > tolerance.atol + tolerance.rtol * size;
        if (distance > difference.largest) difference.largest = distance;
    } else {
        difference.moved += !(now == before || (now != now && before != before));
    }
}

struct Comparison {
    DoubleVector rtol, atol;
    DoubleVector sum = {}, largest = {}, before = {};
    LongVector moved = {}, finite = {};

    explicit Comparison(Tolerance tolerance) : rtol(DoubleVector{} + tolerance.rtol), atol(DoubleVector{} + tolerance.atol) {}

    template <bool Careful>
    INLINE void add(DoubleVector x, DoubleVector y) {
        DoubleVector distance = magnitude(x - y), size = magnitude(y);
        if (Careful) {
            const LongVector both = LongVector(magnitude(x) <= __DBL_MAX__) & LongVector(size <= __DBL_MAX__);
            const LongVector same = LongVector(x == y) | (LongVector(x != x) & LongVector(y != y));
            distance = (DoubleVector)((LongVector)distance & both);
            size = (DoubleVector)((LongVector)size & both);
            count(finite, both);
            count(moved, (~both & ~same) | (both & LongVector(distance > atol + rtol * size)));
        } else {
            count(moved, distance > atol + rtol * size);
        }
        sum += distance;
        before += size;
        largest = greater(distance, largest);
    }
    template <bool Careful>
    INLINE void add(const float* x, const float* y) {
        add<Careful>(widened(x), widened(y));
        add<Careful>(widened(x + kFloats / 2), widened(y + kFloats / 2));
    }
};

template <class Load, bool Careful>
Difference compare_values(const typename Load::Memory* now, const typename Load::Memory* before, int n, Tolerance tolerance) {
    constexpr int kLanes = TENSIGHT_VECTOR_BYTES / sizeof(typename Load::Value);
    Comparison lanes(tolerance);
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        prefetch(before + i);
        if constexpr (kLanes == kDoubles) {
            lanes.template add<Careful>(Load::vector(now + i), Load::vector(before + i));
        } else {
            Slot x, y;
            lanes.template add<Careful>(held(now + i, Load::vector(now + i), x), held(before + i, Load::vector(before + i), y));
        }
    }
    Difference difference;
    difference.count = Careful ? total(lanes.finite) : i;
    difference.sum = total(lanes.sum);
    difference.before = total(lanes.before);
    difference.moved = total(lanes.moved);
    for (int lane = 0; lane < kDoubles; ++lane)
        if (lanes.largest[lane] > difference.largest) difference.largest = lanes.largest[lane];
    for (; i < n; ++i) compare_one(Load::scalar(now + i), Load::scalar(before + i), tolerance, difference);
    return difference;
}

template <class Load>
Difference compare_block(const typename Load::Memory* now, const typename Load::Memory* before, int n, Tolerance tolerance) {
    const Difference difference = compare_values<Load, false>(now, before, n, tolerance);
    if (__builtin_expect(is_finite(difference.sum) && is_finite(difference.before), 1)) return difference;
    return compare_values<Load, true>(now, before, n, tolerance);
}

template <class Word>
int64_t count_equal(const void* now, const void* before, int n) {
    const Word* a = static_cast<const Word*>(now);
    const Word* b = static_cast<const Word*>(before);
    Word different = 0;
    for (int i = 0; i < n; ++i) different |= a[i] ^ b[i];
    if (different == 0) return n;  // nothing moved: the common case for weights that are not trained
    int64_t count = 0;
    for (int i = 0; i < n; ++i) count += a[i] == b[i];
    return count;
}

// A block that comes into vectors straight from memory, and its difference to an earlier copy; `equal` grows by the
// values that have the same bits.
template <class Load, class Word>
void read_and_compare_apart(const typename Load::Memory* now, const typename Load::Memory* before, int n, Tolerance tolerance,
                            bool& trouble, Block& block, Difference& difference, int64_t& equal) {
    block = read_block<Load>(now, n, trouble);
    difference = compare_block<Load>(now, before, n, tolerance);
    equal += count_equal<Word>(now, before, n);
}

template <class Load, class Word>
void read_and_compare(const typename Load::Memory* now, const typename Load::Memory* before, int n, Tolerance tolerance,
                      bool& trouble, Block& block, Difference& difference, int64_t& equal) {
    read_and_compare_apart<Load, Word>(now, before, n, tolerance, trouble, block, difference, equal);
}

// 64-bit integers are subtracted as integers, which is exact, and rounded to double once.
template <class Integer>
Difference compare_integers(const Integer* now, const Integer* before, int n, Tolerance tolerance) {
    Difference difference;
    difference.count = n;
    for (int i = 0; i < n; ++i) {
        const Integer a = now[i], b = before[i];
        const double distance = double(a > b ? uint64_t(a) - uint64_t(b) : uint64_t(b) - uint64_t(a));
        const double size = __builtin_fabs(double(b));
        difference.sum += distance;
        difference.before += size;
        difference.moved += distance > tolerance.atol + tolerance.rtol * size;
        if (distance > difference.largest) difference.largest = distance;
    }
    return difference;
}
