// The C interface: what native.py calls through ctypes.

#include "interface.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define TENSIGHT_EXPORT extern "C" __attribute__((visibility("default")))

namespace tensight {
namespace {

struct Variant {
    const char* name;
    Pass pass;
    bool (*runs_here)();
};

bool always() { return true; }

const Variant kVariants[] = {
#if defined(__x86_64__)
    {"avx512", pass_avx512,
     [] {
         return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("f16c");
     }},
    {"avx2", pass_avx2, [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }},
    {"sse2", pass_baseline, always},
#elif defined(__aarch64__)
    {"neon", pass_baseline, always},
#else
    {"scalar", pass_baseline, always},
#endif
};
constexpr int kVariantCount = sizeof kVariants / sizeof kVariants[0];

int best_variant() {
    int i = 0;
    while (!kVariants[i].runs_here()) ++i;
    return i;
}

int chosen = best_variant();

// A training may run with subnormals flushed to zero. Counting must not: it would take them for zeros. The setting is
// the thread's own, and is put back together with its exception flags.
class PlainArithmetic {
  public:
#if defined(__x86_64__)
    PlainArithmetic() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
    ~PlainArithmetic() { _mm_setcsr(saved_); }

  private:
    unsigned saved_;
#elif defined(__aarch64__)
    PlainArithmetic() {
        asm volatile("mrs %0, fpcr" : "=r"(control_));
        asm volatile("mrs %0, fpsr" : "=r"(status_));
        asm volatile("msr fpcr, %0" : : "r"(uint64_t(0)));
    }
    ~PlainArithmetic() {
        asm volatile("msr fpcr, %0" : : "r"(control_));
        asm volatile("msr fpsr, %0" : : "r"(status_));
    }

  private:
    uint64_t control_, status_;
#endif
};

}  // namespace
}  // namespace tensight

#include "copy.h"
#include "team.h"

namespace tensight {
namespace {

// One tensor as Python writes it: words, with shape, strides and strides of the earlier copy behind them.
struct Item {
    const void* now;
    const void* before;
    const Needs* needs;
    int64_t dtype;
    int64_t rank;
};

bool is_valid(const Task& task) {
    if (task.dtype < 0 || task.dtype >= kDtypes || task.rank < 0 || task.rank > kMaxRank) return false;
    for (int d = 0; d < task.rank; ++d)
        if (task.shape[d] < 0) return false;
    return true;
}

}  // namespace
}  // namespace tensight

using namespace tensight;

TENSIGHT_EXPORT int tensight_abi() { return 4; }

TENSIGHT_EXPORT int tensight_variants() { return kVariantCount; }

TENSIGHT_EXPORT const char* tensight_variant_name(int i) { return kVariants[i].name; }

TENSIGHT_EXPORT int tensight_variant_runs(int i) { return kVariants[i].runs_here(); }

TENSIGHT_EXPORT int tensight_chosen() { return chosen; }

TENSIGHT_EXPORT void tensight_choose(int i) { chosen = i < 0 ? best_variant() : i; }

// Read large tensors with the threads behind this entry point, on the calling thread; null: on the calling thread alone.
TENSIGHT_EXPORT void tensight_share_threads(void* parallel) {
    team = reinterpret_cast<Parallel>(parallel);
    team_owner = pthread_self();
}

// A contiguous tensor of `count` values. 0 when done, 1 when the arguments make no sense.
TENSIGHT_EXPORT int tensight_contiguous(const void* now, int32_t dtype, int64_t count, const void* before,
                                        const Needs* needs, Result* result) {
    const Task task = {now, before, dtype, 1, &count, &kStride, &kStride};
    if (!is_valid(task)) return 1;
    Unit unit = {task, needs, result, reinterpret_cast<int64_t*>(result + 1), 0};
    read_all(kVariants[chosen].pass, &unit, 1);
    return 0;
}

// The same for a tensor of which nothing more is asked: where it is, its dtype and how many values stand in the first
// three words at `desk`, its result goes behind them. One argument is quicker to hand over than six.
TENSIGHT_EXPORT int tensight_plain(int64_t* desk) {
    return tensight_contiguous(reinterpret_cast<const void*>(desk[0]), int32_t(desk[1]), desk[2], nullptr, nullptr,
                               reinterpret_cast<Result*>(desk + 3));
}

// `count` items, one after the other in `words`; results likewise, each followed by its ranges. 0 when done, else
// the number, from 1, of the item that makes no sense, and -1 when there is no memory.
TENSIGHT_EXPORT int64_t tensight_many(const int64_t* words, int64_t count, int64_t* results) {
    Unit* units = static_cast<Unit*>(malloc(size_t(count ? count : 1) * sizeof(Unit)));
    if (!units) return -1;
    int64_t wrong = 0;
    for (int64_t i = 0; i < count && !wrong; ++i) {
        const Item* item = reinterpret_cast<const Item*>(words);
        const int64_t* dimensions = words + sizeof(Item) / sizeof(int64_t);
        const int64_t rank = item->rank;
        const Task task = {item->now,  item->before,      int32_t(item->dtype),  int32_t(rank),
                           dimensions, dimensions + rank, dimensions + 2 * rank};
        if (!is_valid(task)) {
            wrong = i + 1;
            break;
        }
        Result* result = reinterpret_cast<Result*>(results);
        int64_t* within = reinterpret_cast<int64_t*>(result + 1);
        units[i] = {task, item->needs, result, within, 0};
        words = dimensions + 3 * rank;
        results = within + (item->needs ? item->needs->ranges : 0);
    }
    if (!wrong) read_all(kVariants[chosen].pass, units, count);
    free(units);
    return wrong;
}

// `count` copies, each as three words: where to, where from, how many bytes.
TENSIGHT_EXPORT void tensight_copy(const int64_t* words, int64_t count) {
    copy_all(reinterpret_cast<const Copy*>(words), count);
}
