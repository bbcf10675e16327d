// Large tensors are read in pieces, by the threads that the training's own operators run on.
//
// Those threads are waiting anyway while a hook runs, and often spin: threads of our own would fight them for the
// cores. The team is OpenMP's entry point as the framework has loaded it (`GOMP_parallel`), so nothing is linked. It is
// used only on the thread that handed it over: another thread would make it start a second set of threads.
//
// A large tensor is cut into the same pieces whatever the number of threads, and they are put together in order: the
// results do not depend on who computed what.
#pragma once

#include <pthread.h>
#include <stdlib.h>

#include "interface.h"

namespace tensight {
namespace {

using Parallel = void (*)(void (*work)(void*), void* data, unsigned threads, unsigned flags);

Parallel team = nullptr;
pthread_t team_owner;

constexpr int64_t kPiece = 1 << 15;    // values
constexpr int64_t kWorthIt = 1 << 15;  // values; fewer are read before the others have woken up
constexpr int64_t kStride = 1;

// One tensor, or a piece of one.
struct Unit {
    Task task;
    const Needs* needs;
    Result* result;
    int64_t* within;
    int64_t length;  // of a piece
};

struct Work {
    Pass pass;
    Unit* units;
    int64_t count;
    int64_t next;
};

void take_units(void* data) {
    Work* work = static_cast<Work*>(data);
    const PlainArithmetic plain;
    for (;;) {
        const int64_t i = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED);
        if (i >= work->count) return;
        const Unit& unit = work->units[i];
        work->pass(unit.task, unit.needs, unit.result, unit.within);
    }
}

void run(Pass pass, Unit* units, int64_t count, int64_t values) {
    Work work = {pass, units, count, 0};
    if (team && count > 1 && values >= kWorthIt && pthread_equal(pthread_self(), team_owner))
        team(take_units, &work, 0, 0);
    else
        take_units(&work);
}

int64_t bytes_of(int32_t dtype) {
    switch (dtype) {
        case kFloat32: return 4;
        case kFloat16:
        case kBfloat16: return 2;
        default: return 1;
    }
}

// Whether a tensor is cut. Values of 64 bits are not: their extremes and squares need the whole.
int64_t pieces_of(const Task& task) {
    if (task.dtype == kFloat64 || task.dtype > kFloat8E8M0FNU || task.rank != 1 || task.strides[0] != 1) return 1;
    if (task.before && task.before_strides[0] != 1) return 1;
    return task.shape[0] <= kPiece ? 1 : (task.shape[0] + kPiece - 1) / kPiece;
}

// The pieces of one tensor, put together in their order.
void merge(const Result* pieces, int64_t count, Result* into) {
    Result all = Result();
    double sum = 0, magnitudes = 0, squares = 0, deviations = 0, finite = 0;
    double change_sum = 0, before_sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        const Result& piece = pieces[i];
        const double n = double(piece.zero + piece.negative + piece.positive);
        if (n > 0) {
            if (finite > 0) {
                const double apart = piece.mean - sum / finite;
                deviations += apart * apart * (finite * n / (finite + n));
            }
            if (finite == 0 || piece.min.real < all.min.real) all.min = piece.min;
            if (finite == 0 || piece.max.real > all.max.real) all.max = piece.max;
            finite += n;
            sum += piece.mean * n;
            magnitudes += piece.abs_mean * n;
            squares += piece.l2 * piece.l2;
            deviations += piece.std * piece.std * n;
        }
        all.count += piece.count;
        all.nan += piece.nan;
        all.pos_inf += piece.pos_inf;
        all.neg_inf += piece.neg_inf;
        all.zero += piece.zero;
        all.negative += piece.negative;
        all.positive += piece.positive;
        all.change_count += piece.change_count;
        change_sum += piece.change_abs_mean * double(piece.change_count);
        before_sum += piece.change_before_abs_mean * double(piece.change_count);
        if (piece.change_abs_max > all.change_abs_max) all.change_abs_max = piece.change_abs_max;
        all.moved += piece.moved;
        all.equal += piece.equal;
    }
    if (finite > 0) {
        const bool constant = all.min.real == all.max.real;  // then nothing needs rounding
        all.mean = constant ? all.min.real : sum / finite;
        all.abs_mean = constant ? __builtin_fabs(all.min.real) : magnitudes / finite;
        all.std = constant ? 0 : __builtin_sqrt(deviations / finite);
        all.l2 = __builtin_sqrt(squares);
    }
    if (all.change_count) {
        all.change_abs_mean = change_sum / double(all.change_count);
        all.change_before_abs_mean = before_sum / double(all.change_count);
    }
    *into = all;
}

// Tensors, each with where its result and its ranges go. `result` and `within` of a cut one are filled by merging.
void read_all(Pass pass, Unit* tensors, int64_t count) {
    int64_t units = 0, pieces = 0, ranges = 0, values = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t n = pieces_of(tensors[i].task);
        int64_t size = 1;
        for (int d = 0; d < tensors[i].task.rank; ++d) size *= tensors[i].task.shape[d];
        values += size;
        units += n;
        if (n == 1) continue;
        pieces += n;
        ranges += n * (tensors[i].needs ? tensors[i].needs->ranges : 0);
    }
    if (pieces == 0) {
        run(pass, tensors, count, values);
        return;
    }
    const size_t room = size_t(units) * sizeof(Unit) + size_t(pieces) * sizeof(Result) + size_t(ranges) * sizeof(int64_t);
    char* memory = static_cast<char*>(malloc(room));
    if (!memory) {
        Work work = {pass, tensors, count, 0};
        take_units(&work);
        return;
    }
    Unit* unit = reinterpret_cast<Unit*>(memory);
    Result* results = reinterpret_cast<Result*>(memory + size_t(units) * sizeof(Unit));
    int64_t* within = reinterpret_cast<int64_t*>(results + pieces);
    Result* result = results;
    for (int64_t i = 0; i < count; ++i) {
        const Unit& whole = tensors[i];
        const int64_t n = pieces_of(whole.task);
        if (n == 1) {
            *unit++ = whole;
            continue;
        }
        const int64_t step = kPiece * bytes_of(whole.task.dtype);
        for (int64_t piece = 0; piece < n; ++piece, ++unit, ++result) {
            *unit = whole;
            unit->length = piece + 1 < n ? kPiece : whole.task.shape[0] - piece * kPiece;
            unit->task.now = static_cast<const char*>(whole.task.now) + piece * step;
            if (whole.task.before) unit->task.before = static_cast<const char*>(whole.task.before) + piece * step;
            unit->task.shape = &unit->length;
            unit->task.strides = unit->task.before_strides = &kStride;
            unit->result = result;
            unit->within = within;
            within += whole.needs ? whole.needs->ranges : 0;
        }
    }
    run(pass, reinterpret_cast<Unit*>(memory), units, values);
    result = results;
    within = reinterpret_cast<int64_t*>(results + pieces);
    for (int64_t i = 0; i < count; ++i) {
        const Unit& whole = tensors[i];
        const int64_t n = pieces_of(whole.task), wanted = whole.needs ? whole.needs->ranges : 0;
        if (n == 1) continue;
        merge(result, n, whole.result);
        result += n;
        for (int64_t r = 0; r < wanted; ++r) whole.within[r] = 0;
        for (int64_t piece = 0; piece < n; ++piece)
            for (int64_t r = 0; r < wanted; ++r) whole.within[r] += *within++;
    }
    free(memory);
}

}  // namespace
}  // namespace tensight
