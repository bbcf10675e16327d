// Copies of weights, made before an update and read after it. In between the update runs over several times as much
// memory, so a large copy would only push the training's own values out of the caches: it is written past them.
#pragma once

#include <string.h>

#include "team.h"

namespace tensight {
namespace {

constexpr int64_t kLeftInCache = 4 << 20;   // bytes; as much may be there still when it is read
constexpr int64_t kPieceOfCopy = 1 << 18;  // bytes

struct Copy {
    char* to;
    const char* from;
    int64_t bytes;
};

void copy_past_caches(char* to, const char* from, int64_t bytes) {
#if defined(__x86_64__)
    if (reinterpret_cast<uintptr_t>(to) % 16) {
        memcpy(to, from, size_t(bytes));
        return;
    }
    int64_t i = 0;
    for (; i + 64 <= bytes; i += 64) {
        __builtin_prefetch(from + i + 2048);
        for (int part = 0; part < 64; part += 16)
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + part),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + part)));
    }
    memcpy(to + i, from + i, size_t(bytes - i));
    _mm_sfence();
#else
    memcpy(to, from, size_t(bytes));
#endif
}

struct Copies {
    const Copy* copies;
    int64_t count;
    bool large;
    int64_t next;  // piece of all that are to be copied
};

void take_copies(void* data) {
    Copies* work = static_cast<Copies*>(data);
    int64_t first = 0, at = 0;  // the number of the first piece of copy `at`
    for (;;) {
        const int64_t piece = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED);
        for (; at < work->count; ++at) {
            const int64_t pieces = (work->copies[at].bytes + kPieceOfCopy - 1) / kPieceOfCopy;
            if (piece < first + pieces) break;
            first += pieces;
        }
        if (at == work->count) return;
        const Copy& copy = work->copies[at];
        const int64_t start = (piece - first) * kPieceOfCopy;
        const int64_t bytes = copy.bytes - start < kPieceOfCopy ? copy.bytes - start : kPieceOfCopy;
        if (work->large)
            copy_past_caches(copy.to + start, copy.from + start, bytes);
        else
            memcpy(copy.to + start, copy.from + start, size_t(bytes));
    }
}

void copy_all(const Copy* copies, int64_t count) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < count; ++i) bytes += copies[i].bytes;
    Copies work = {copies, count, bytes > kLeftInCache, 0};
    if (team && bytes > kPieceOfCopy && pthread_equal(pthread_self(), team_owner))
        team(take_copies, &work, 0, 0);
    else
        take_copies(&work);
}

}  // namespace
}  // namespace tensight
