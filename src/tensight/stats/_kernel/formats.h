// Number formats that C++ has no type for. Included by every variant of the pass, inside its own namespace, so that
// no function compiled for one set of instructions can be linked into another.

struct Bfloat16 {
    uint16_t bits;
};

struct Float16 {
    uint16_t bits;
};

struct Bool {
    uint8_t bits;
};

template <int Format>
struct Float8 {
    uint8_t bits;
};

inline float from_bits(uint32_t bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

inline uint32_t to_bits(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

// Written without branches, so that a loop over it becomes vector code. Subnormals are made by a subtraction of
// normal numbers: arithmetic on subnormals is many times slower on some processors.
inline float float16_value(uint16_t half) {
    const uint32_t magnitude = uint32_t(half & 0x7fff) << 13;
    const uint32_t normal = magnitude + (112u << 23);
    const uint32_t special = magnitude + (224u << 23);
    const uint32_t small = to_bits(from_bits(magnitude + (113u << 23)) - 6.103515625e-05f);
    uint32_t bits = magnitude >= (31u << 23) ? special : normal;
    bits = magnitude < (1u << 23) ? small : bits;
    return from_bits(bits | uint32_t(half & 0x8000) << 16);
}

// The 256 values of an 8-bit float with `exponent_bits`, `mantissa_bits` and `bias`.
// Three families: IEEE-like (e5m2), finite with NaN at the top (fn), unsigned zero with NaN in its place (fnuz).
enum class Family { kIeee, kFinite, kUnsignedZero };

struct Table {
    float values[256];
};

constexpr double power_of_two(int exponent) {
    double power = 1;
    for (; exponent > 0; --exponent) power *= 2;
    for (; exponent < 0; ++exponent) power /= 2;
    return power;
}

constexpr Table float8_table(int exponent_bits, int mantissa_bits, int bias, Family family) {
    Table table{};
    const int top = (1 << exponent_bits) - 1;
    const int mantissa_top = (1 << mantissa_bits) - 1;
    for (int code = 0; code < 256; ++code) {
        const int exponent = (code >> mantissa_bits) & top;
        const int mantissa = code & mantissa_top;
        const double fraction = double(mantissa) / (1 << mantissa_bits);
        double value = exponent ? (1 + fraction) * power_of_two(exponent - bias) : fraction * power_of_two(1 - bias);
        if (family == Family::kIeee && exponent == top) value = mantissa ? __builtin_nan("") : __builtin_inf();
        if (family == Family::kFinite && exponent == top && mantissa == mantissa_top) value = __builtin_nan("");
        if (family == Family::kUnsignedZero && code == 0x80) value = __builtin_nan("");
        table.values[code] = float(code & 0x80 ? -value : value);
    }
    return table;
}

// e8m0fnu is a scale: a power of two without sign, zero or mantissa.
constexpr Table scale_table() {
    Table table{};
    for (int code = 0; code < 255; ++code) table.values[code] = float(power_of_two(code - 127));
    table.values[255] = __builtin_nanf("");
    return table;
}

template <int Format>
inline const float* float8_values() {
    static constexpr Table table = Format == kFloat8E4M3FN     ? float8_table(4, 3, 7, Family::kFinite)
                               : Format == kFloat8E5M2     ? float8_table(5, 2, 15, Family::kIeee)
                               : Format == kFloat8E4M3FNUZ ? float8_table(4, 3, 8, Family::kUnsignedZero)
                               : Format == kFloat8E5M2FNUZ ? float8_table(5, 2, 16, Family::kUnsignedZero)
                                                           : scale_table();
    return table.values;
}

// The smallest float not below `value`, and the largest not above it, without infinities.
inline float rounded_up(double value) {
    if (value > __FLT_MAX__) return __builtin_inff();
    if (value < -__FLT_MAX__) return -__FLT_MAX__;
    const float near = float(value);
    return double(near) < value ? __builtin_nextafterf(near, __builtin_inff()) : near;
}
inline float rounded_down(double value) { return -rounded_up(-value); }
