"""The compiled kernel: all statistics of a tensor in one pass over its memory, given by its address.

    native.available()                                     whether the kernel can be used here (builds it on first need)
    native.contiguous(pointer, 'float32', count)           the quick way, for a tensor whose values lie side by side
    native.one(pointer, 'bfloat16', shape, strides)        any layout; strides count elements, as torch's do
    native.many([(pointer, dtype, layout, before), …])     a list in one call
    native.copy([(to, source, bytes), …])                  copies that are not looked at soon

A dtype is a name or a code of `DTYPES`. A pointer is the address of the first value (`tensor.data_ptr()`); the caller
keeps the memory alive during the call. A call computes on its own thread, or, after `share_threads`, on those of the
training's own operators. It is safe from several threads, and lets other Python threads run while it reads a large
tensor (during a small one that would cost more than it gives).
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from array import array
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tensight.errors import UsageError
from tensight.records import Change, Needs, Stats, Within
from tensight.stats import building

DTYPES: dict[str, int] = {
    name: code
    for code, name in enumerate(
        (
            "float32",
            "float64",
            "float16",
            "bfloat16",
            "float8_e4m3fn",
            "float8_e5m2",
            "float8_e4m3fnuz",
            "float8_e5m2fnuz",
            "float8_e8m0fnu",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "bool",
            "complex32",
            "complex64",
            "complex128",
        )
    )
}
"""Codes of the dtypes the kernel reads. A complex number counts as two reals."""

Layout: TypeAlias = (
    int
    | tuple[Sequence[int], Sequence[int]]
    | tuple[Sequence[int], Sequence[int], Sequence[int]]  # shape, strides, strides of the earlier copy
)
Item: TypeAlias = tuple[int, int | str, Layout, int | None]

_INT64, _UINT64, _FIRST_INTEGER, _BOOL = DTYPES["int64"], DTYPES["uint64"], DTYPES["int8"], DTYPES["bool"]
_PART_OF_COMPLEX = {
    DTYPES["complex32"]: DTYPES["float16"],
    DTYPES["complex64"]: DTYPES["float32"],
    DTYPES["complex128"]: DTYPES["float64"],
}
_NO_NEEDS = Needs()
_NO_FINITE_VALUE = (None,) * 6  # min to l2
_MAX_RANK = 64
_INTERFACE = 4
_SMALL = 1 << 15  # values; below that the interpreter is held, as letting go of it and waiting for it again costs more

# The words of a result, in the order of the fields of Stats and of Change.
_FLOATS = struct.Struct("=7q6d")
_INTEGERS = struct.Struct("=9q4d")
_NATURALS = struct.Struct("=7q2Q4d")
_CHANGE = struct.Struct("=q3d2q")
_ASKED = struct.Struct("=3q")  # of a plain tensor: where it is, its dtype, how many values
_put_asked, _floats_from = _ASKED.pack_into, _FLOATS.unpack_from
_CHANGE_AT = _FLOATS.size
_WITHIN_AT = _FLOATS.size + _CHANGE.size
_RESULT_WORDS = _WITHIN_AT // 8
_ANSWER_AT = _ASKED.size

_Call: TypeAlias = Callable[..., int]


class _Kernel:
    """The loaded library. Each function comes twice: holding the interpreter's lock, and letting go of it."""

    def __init__(self, path: str) -> None:
        released = ctypes.CDLL(path)
        held = ctypes.PyDLL(path)
        if released.tensight_abi() != _INTERFACE:
            raise OSError(f"{path} has another interface than this version of Tensight")
        self.path = path
        pointer, whole = ctypes.c_void_p, ctypes.c_int64
        for library in (released, held):
            library.tensight_contiguous.argtypes = (pointer, ctypes.c_int32, whole, pointer, pointer, pointer)
            library.tensight_many.argtypes = (pointer, whole, pointer)
            library.tensight_many.restype = whole
            library.tensight_copy.argtypes = (pointer, whole)
            library.tensight_copy.restype = None
        released.tensight_variant_name.restype = ctypes.c_char_p
        released.tensight_share_threads.argtypes = (pointer,)
        self.share_threads: Callable[[int | None], None] = released.tensight_share_threads
        self.contiguous_held: _Call = held.tensight_contiguous
        self.contiguous_released: _Call = released.tensight_contiguous
        # without types of arguments: what it is handed is a pointer already, and asking takes longer than the reading
        self.plain_held: _Call = held.tensight_plain
        self.plain_released: _Call = released.tensight_plain
        self.many_held: _Call = held.tensight_many
        self.many_released: _Call = released.tensight_many
        self.copy: Callable[[int, int], None] = released.tensight_copy
        self.choose: Callable[[int], None] = released.tensight_choose
        self.chosen: Callable[[], int] = released.tensight_chosen
        self.variants: list[str] = [
            released.tensight_variant_name(i).decode() for i in range(released.tensight_variants())
        ]
        self.runs_here: list[str] = [name for i, name in enumerate(self.variants) if released.tensight_variant_runs(i)]


class _Room(threading.local):
    """Memory for results, one for each thread, used again by every call."""

    def __init__(self) -> None:
        self.grow(256)
        desk = bytearray(_ANSWER_AT + 8 * _RESULT_WORDS)
        self.desk = desk, ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(desk)))

    def grow(self, words: int) -> None:
        self.words = words
        self.memory = bytearray(8 * words)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))


_room = _Room()
_kernel: _Kernel | None = None
_reason: str | None = None  # why there is no kernel, once that is known
_loading = threading.Lock()


def available() -> bool:
    """Whether the kernel can be used. The first call loads it, and compiles it when that was not done yet."""
    if _kernel is not None:
        return True
    if _reason is not None:
        return False
    with _loading:
        if _kernel is None and _reason is None:
            _load()
    return _kernel is not None


def describe() -> str:
    """One sentence on the kernel for `tensight doctor`.

    >>> describe().startswith(("the native kernel runs", "there is no native kernel"))
    True
    """
    if available() and _kernel is not None:
        return f"the native kernel runs, with {instructions()} instructions"
    return f"there is no native kernel: {_reason}; statistics take a slower way"


def instructions() -> str:
    """The instructions the kernel uses now: 'avx512', 'avx2', 'sse2', 'neon' or 'scalar'."""
    kernel = _loaded()
    return kernel.variants[kernel.chosen()]


def supported_instructions() -> tuple[str, ...]:
    """What this processor can run, best first."""
    return tuple(_loaded().runs_here)


def use_instructions(name: str | None) -> None:
    """Use these instructions from now on; None goes back to the best."""
    kernel = _loaded()
    if name is not None and name not in kernel.runs_here:
        raise UsageError(f"this machine has no {name!r} instructions: choose one of {', '.join(kernel.runs_here)}")
    kernel.choose(-1 if name is None else kernel.variants.index(name))


def share_threads(library: str | None) -> bool:
    """Read large tensors with the threads of the OpenMP library at this path, which the process has loaded.

    Whether that is so from now on; it holds for calls from this very thread. None: on the calling thread alone.
    """
    kernel = _loaded()
    entry = None
    if library is not None:
        try:
            entry = ctypes.cast(ctypes.CDLL(library).GOMP_parallel, ctypes.c_void_p).value
        except (OSError, AttributeError):
            entry = None
    kernel.share_threads(entry)
    return entry is not None


def plain(pointer: int, code: int, count: int) -> Stats:
    """Statistics of `count` floating-point values that lie side by side; `code` is of a dtype that is not complex.

    >>> values = array("f", [1.0, 2.0])
    >>> plain(values.buffer_info()[0], DTYPES["float32"], 2).max
    2.0
    """
    kernel = _kernel or _loaded()
    desk, address = _room.desk
    _put_asked(desk, 0, pointer, code, count)
    if (kernel.plain_held if count < _SMALL else kernel.plain_released)(address):
        raise UsageError(f"a tensor cannot have {count} values of dtype {code}")
    values: tuple[Any, ...] = _floats_from(desk, _ANSWER_AT)
    if values[4] or values[5] or values[6]:
        return Stats(*values)
    values = (*values[:7], *_NO_FINITE_VALUE)
    return Stats(*values)


def contiguous(
    pointer: int, dtype: int | str, count: int, needs: Needs | None = None, before_pointer: int | None = None
) -> Stats:
    """Statistics of `count` values that lie side by side, and their change against a copy at `before_pointer`."""
    kernel = _kernel or _loaded()
    code = dtype if type(dtype) is int else _code(dtype)
    if needs is None and code < _FIRST_INTEGER and not before_pointer:
        return plain(pointer, code, count)
    if code > _BOOL:
        code, count = _part_of(code), 2 * count
    room = _room
    needed = 0
    if needs is not None:
        encoded = _encoded(needs)
        needed = encoded.buffer_info()[0]
        if _RESULT_WORDS + len(needs.ranges) > room.words:
            room.grow(_RESULT_WORDS + len(needs.ranges))
    call = kernel.contiguous_held if count < _SMALL else kernel.contiguous_released
    if call(pointer, code, count, before_pointer, needed, room.address):
        raise UsageError(f"a tensor cannot have {count} values of dtype {dtype}")
    return _read(room.memory, 0, code, needs, bool(before_pointer))


def one(
    pointer: int,
    dtype: int | str,
    shape: Sequence[int],
    strides: Sequence[int],
    needs: Needs | None = None,
    before_pointer: int | None = None,
    before_strides: Sequence[int] | None = None,
) -> Stats:
    """Statistics of a tensor of any layout; strides count elements. `before_strides` default to `strides`."""
    layout = (shape, strides, strides if before_strides is None else before_strides)
    return many([(pointer, dtype, layout, before_pointer)], needs)[0]


def many(items: Sequence[Item], needs: Needs | Sequence[Needs | None] | None = None) -> list[Stats]:
    """Statistics of several tensors in one call.

    An item is `(pointer, dtype, layout, before)`: the layout is the number of values of a contiguous tensor, or
    `(shape, strides)`, or `(shape, strides, strides of the earlier copy)`; `before` is the address of an earlier copy,
    0 or None. `needs` is for all, or a list with one for each.
    """
    kernel = _kernel or _loaded()
    each = [needs] * len(items) if needs is None or isinstance(needs, Needs) else list(needs)
    if len(each) != len(items):
        raise UsageError(f"{len(items)} tensors need as many needs, not {len(each)}: give one for each, or one for all")
    words: list[int] = []
    encoded: list[array[float]] = []  # alive until the call is over
    codes: list[int] = []
    values = 0
    room_needed = 0
    for (pointer, dtype, layout, before), need in zip(items, each):
        code = dtype if type(dtype) is int else _code(dtype)
        needed = 0
        room_needed += _RESULT_WORDS
        if need is not None:
            encoded.append(_encoded(need))
            needed = encoded[-1].buffer_info()[0]
            room_needed += len(need.ranges)
        if type(layout) is int:
            if code > _BOOL:
                code, layout = _part_of(code), 2 * layout
            words += (pointer, before or 0, needed, code, 1, layout, 1, 1)
            values += layout
        else:
            code, shape, strides, before_strides = _dimensions(code, layout)  # type: ignore[arg-type]
            words += (pointer, before or 0, needed, code, len(shape), *shape, *strides, *before_strides)
            size = 1
            for length in shape:
                size *= length
            values += size
        codes.append(code)
    program = array("q", words)
    room = _room
    if room_needed > room.words:
        room.grow(2 * room_needed)
    call = kernel.many_held if values < _SMALL else kernel.many_released
    wrong = call(program.buffer_info()[0], len(codes), room.address)
    if wrong < 0:
        raise MemoryError(f"no memory for the statistics of {len(codes)} tensors")
    if wrong:
        raise UsageError(f"item {wrong - 1} of the list is not a tensor: {items[wrong - 1]!r}")
    results = []
    at = 0
    for item, code, need in zip(items, codes, each):
        results.append(_read(room.memory, at, code, need, bool(item[3])))
        at += 8 * (_RESULT_WORDS + (len(need.ranges) if need is not None else 0))
    return results


def copy(pieces: Sequence[tuple[int, int, int]]) -> None:
    """Copy memory: `(where to, where from, how many bytes)`, several in one call. They must not overlap."""
    program = array("q", [word for piece in pieces for word in piece])
    (_kernel or _loaded()).copy(program.buffer_info()[0], len(pieces))


def _read(memory: bytearray, at: int, code: int, needs: Needs | None, changed: bool) -> Stats:
    form = _FLOATS if code < _FIRST_INTEGER else _NATURALS if code == _UINT64 else _INTEGERS
    values: tuple[Any, ...] = form.unpack_from(memory, at)
    within: tuple[Within, ...] = ()
    if needs is not None and needs.ranges:
        counts = struct.unpack_from(f"={len(needs.ranges)}q", memory, at + _WITHIN_AT)
        within = tuple(Within(start, end, count) for (start, end), count in zip(needs.ranges, counts))
    change = None
    if changed and values[0]:
        tolerances = needs or _NO_NEEDS
        measured: tuple[Any, ...] = _CHANGE.unpack_from(memory, at + _CHANGE_AT)
        measured = (*measured, tolerances.rtol, tolerances.atol)
        change = Change(*measured)
    if not (values[4] or values[5] or values[6]):
        values = (*values[:7], *_NO_FINITE_VALUE)
    values = (*values, within, change)
    return Stats(*values)


def _code(dtype: object) -> int:
    try:
        return DTYPES[dtype]  # type: ignore[index]
    except (KeyError, TypeError):
        raise UsageError(f"the kernel cannot read dtype {dtype!r}: it reads {', '.join(DTYPES)}") from None


def _part_of(code: int) -> int:
    try:
        return _PART_OF_COMPLEX[code]
    except KeyError:
        raise UsageError(f"there is no dtype with code {code}: see native.DTYPES") from None


def _dimensions(code: int, layout: Sequence[Sequence[int]]) -> tuple[int, list[int], list[int], list[int]]:
    shape, strides = list(layout[0]), list(layout[1])
    before_strides = list(layout[2]) if len(layout) > 2 else strides
    if not len(shape) == len(strides) == len(before_strides) < _MAX_RANK:
        raise UsageError(
            f"shape {shape} and strides {strides}, {before_strides} must be as long as each other, below 64"
        )
    if code > _BOOL:
        code = _part_of(code)
        shape.append(2)
        strides = [2 * stride for stride in strides] + [1]
        before_strides = [2 * stride for stride in before_strides] + [1]
    return code, shape, strides, before_strides


_encodings: dict[Needs, array[float]] = {}


def _encoded(needs: Needs) -> array[float]:
    """These needs in the kernel's form. There are few different ones; they are kept."""
    known = _encodings.get(needs)
    if known is None:
        ends = [end for pair in needs.ranges for end in pair]
        words = struct.pack(f"=q{2 + len(ends)}d", len(needs.ranges), needs.rtol, needs.atol, *ends)
        if len(_encodings) > 10_000:
            _encodings.clear()
        known = _encodings[needs] = array("d", words)
    return known


def _loaded() -> _Kernel:
    if not available() or _kernel is None:
        raise UsageError(f"there is no native kernel: {_reason}")
    return _kernel


def _load() -> None:
    global _kernel, _reason
    if os.environ.get("TENSIGHT_NATIVE", "").lower() in ("off", "0", "no", "false"):
        _reason = "the environment has TENSIGHT_NATIVE=off"
        return
    try:
        kernel = _Kernel(str(building.find_or_build()))
    except (building.BuildError, OSError, AttributeError) as error:
        _reason = str(error)
        return
    wanted = os.environ.get("TENSIGHT_INSTRUCTIONS", "")
    if wanted and wanted not in kernel.runs_here:
        _reason = f"TENSIGHT_INSTRUCTIONS={wanted} is not one of {', '.join(kernel.runs_here)}"
        return
    if wanted:
        kernel.choose(kernel.variants.index(wanted))
    _kernel = kernel


def _after_fork() -> None:
    """A child must not wait for a lock that a thread held which it does not have."""
    global _loading
    _loading = threading.Lock()
    if _kernel is not None:
        _kernel.share_threads(None)  # nor for threads that it does not have


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
