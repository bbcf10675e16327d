// From a tensor of any shape and strides to runs of values that lie side by side.
//
// The order of values does not matter to statistics, so dimensions are put in the order of memory: a tensor that is
// contiguous after a permutation (a transposed weight, channels-last) becomes a single run. What is left is copied,
// block by block, into a small buffer.

struct Layout {
    int rank = 0;
    int64_t shape[kMaxRank];
    int64_t strides[kMaxRank];         // of now
    int64_t before_strides[kMaxRank];  // of before; equal to strides when there is none
    int64_t offset = 0, before_offset = 0;
    int64_t count = 1;
};

inline int64_t size_of_step(int64_t stride) { return stride < 0 ? -stride : stride; }

inline Layout layout_of(const Task& task) {
    Layout layout;
    for (int d = 0; d < task.rank; ++d) {
        int64_t size = task.shape[d], step = task.strides[d];
        int64_t before_step = task.before_strides ? task.before_strides[d] : step;
        layout.count *= size;
        if (size == 1) continue;
        if (step < 0 && before_step < 0) {  // read backwards as well as forwards
            layout.offset += (size - 1) * step;
            layout.before_offset += (size - 1) * before_step;
            step = -step;
            before_step = -before_step;
        }
        int at = layout.rank++;
        for (; at > 0 && size_of_step(layout.strides[at - 1]) < size_of_step(step); --at) {
            layout.shape[at] = layout.shape[at - 1];
            layout.strides[at] = layout.strides[at - 1];
            layout.before_strides[at] = layout.before_strides[at - 1];
        }
        layout.shape[at] = size;
        layout.strides[at] = step;
        layout.before_strides[at] = before_step;
    }
    int kept = 0;
    for (int d = 1; d < layout.rank; ++d) {  // join dimensions that continue each other
        const int64_t inner = layout.shape[d];
        if (layout.strides[kept] == layout.strides[d] * inner && layout.before_strides[kept] == layout.before_strides[d] * inner) {
            layout.shape[kept] *= inner;
        } else {
            layout.shape[++kept] = inner;
        }
        layout.strides[kept] = layout.strides[d];
        layout.before_strides[kept] = layout.before_strides[d];
    }
    if (layout.rank) layout.rank = kept + 1;
    return layout;
}

constexpr int64_t kLongRun = 512;  // shorter runs are gathered into a buffer first

// Calls `block(now, before, n)` with runs of at most `limit` values; `before` is null when there is none.
template <class Memory, class Function>
void walk(const Task& task, int limit, Function&& block) {
    const Layout layout = layout_of(task);
    if (layout.count == 0) return;
    const Memory* now = static_cast<const Memory*>(task.now) + layout.offset;
    const Memory* before = task.before ? static_cast<const Memory*>(task.before) + layout.before_offset : nullptr;
    const int last = layout.rank - 1;
    const int64_t run = layout.rank ? layout.shape[last] : 1;
    const int64_t step = layout.rank ? layout.strides[last] : 1;
    const int64_t before_step = layout.rank ? layout.before_strides[last] : 1;
    const bool side_by_side = step == 1 && before_step == 1;
    const bool direct = side_by_side && (last <= 0 || run >= kLongRun);

    alignas(64) Memory gathered[kBlock];
    alignas(64) Memory gathered_before[kBlock];
    int filled = 0;
    int64_t index[kMaxRank] = {};
    while (true) {
        if (direct) {
            for (int64_t i = 0; i < run; i += limit)
                block(now + i, before ? before + i : nullptr, int(run - i < limit ? run - i : limit));
        } else {
            for (int64_t i = 0; i < run;) {
                const int64_t room = limit - filled, n = run - i < room ? run - i : room;
                for (int64_t j = 0; j < n; ++j) gathered[filled + j] = now[(i + j) * step];
                if (before)
                    for (int64_t j = 0; j < n; ++j) gathered_before[filled + j] = before[(i + j) * before_step];
                filled += int(n);
                i += n;
                if (filled == limit) {
                    block(gathered, before ? gathered_before : nullptr, filled);
                    filled = 0;
                }
            }
        }
        int d = last - 1;
        for (; d >= 0; --d) {
            now += layout.strides[d];
            if (before) before += layout.before_strides[d];
            if (++index[d] < layout.shape[d]) break;
            now -= layout.shape[d] * layout.strides[d];
            if (before) before -= layout.shape[d] * layout.before_strides[d];
            index[d] = 0;
        }
        if (d < 0) break;
    }
    if (filled) block(gathered, before ? gathered_before : nullptr, filled);
}
