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

inline void compare_one(double now, double before, Tolerance tolerance, Difference& difference) {
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
    LongVector moved = {}, count = {};

    explicit Comparison(Tolerance tolerance) : rtol(DoubleVector{} + tolerance.rtol), atol(DoubleVector{} + tolerance.atol) {}

    template <bool Careful>
    inline void add(DoubleVector x, DoubleVector y) {
        DoubleVector distance = magnitude(x - y), size = magnitude(y);
        if (Careful) {
            const LongVector both = LongVector(magnitude(x) <= __DBL_MAX__) & LongVector(size <= __DBL_MAX__);
            const LongVector same = LongVector(x == y) | (LongVector(x != x) & LongVector(y != y));
            distance = (DoubleVector)((LongVector)distance & both);
            size = (DoubleVector)((LongVector)size & both);
            count -= both;
            moved -= ~both & ~same;
            moved -= both & LongVector(distance > atol + rtol * size);
        } else {
            moved -= LongVector(distance > atol + rtol * size);
        }
        sum += distance;
        before += size;
        largest = greater(distance, largest);
    }
    template <bool Careful>
    inline void add(FloatVector x, FloatVector y) {
        add<Careful>(low(x), low(y));
        add<Careful>(high(x), high(y));
    }
};

template <class Load, bool Careful>
Difference compare_values(const typename Load::Memory* now, const typename Load::Memory* before, int n, Tolerance tolerance) {
    constexpr int kLanes = TENSIGHT_VECTOR_BYTES / sizeof(typename Load::Value);
    Comparison lanes(tolerance);
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) lanes.template add<Careful>(Load::vector(now + i), Load::vector(before + i));
    Difference difference;
    difference.count = Careful ? int64_t(total(lanes.count)) : i;
    difference.sum = total(lanes.sum);
    difference.before = total(lanes.before);
    difference.moved = int64_t(total(lanes.moved));
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
