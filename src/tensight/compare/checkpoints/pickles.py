"""Reads the pickle inside a PyTorch checkpoint as data, without ever running it.

A pickle is a program: loading one with Python's own machinery can call anything. This reader walks its opcodes with
a small machine of its own that can build containers, numbers and text, and knows the few names by which PyTorch
rebuilds tensors. It imports nothing and calls nothing the file names; a file that asks for more is refused.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from typing import Any, NamedTuple

from tensight.compare.checkpoints import numpy_values
from tensight.errors import CheckpointError

MOST_OPCODES = 20_000_000
_MOST_BITS = 1 << 16
_LONGEST_NAME = 1000


class Storage(NamedTuple):
    """A run of elements in the file, by its key."""

    dtype: str
    key: str
    size: int


class Strided(NamedTuple):
    """A tensor over a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    trainable: bool | None


class Name(NamedTuple):
    """A name the pickle refers to. It is never looked up."""

    text: str


class _Stopped(Exception):
    """The machine met something it does not do; the message says what."""


DTYPES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
_HARMLESS_VALUES = {"torch.Size", "torch.device", "builtins.set", "__builtin__.set"}
_MARK = object()


def load(data: bytes | io.BytesIO, where: str) -> Any:
    """The data a pickle describes: containers, numbers, text and `Strided` tensors.

    >>> import pickle
    >>> load(pickle.dumps({"a": [1, 2.5, "x"]}, 2), "x.pt")
    {'a': [1, 2.5, 'x']}
    >>> load(b"cos\\nsystem\\n(S'echo'\\ntR.", "x.pt")
    Traceback (most recent call last):
    tensight.errors.CheckpointError: x.pt is refused: loading it would call os.system, ...
    """
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if count > MOST_OPCODES:
                raise _Stopped("it has more instructions than any checkpoint needs")
            machine.do(opcode.name, argument)
    except _Stopped as stopped:
        raise CheckpointError(f"{where} is refused: {' '.join(str(stopped).split())}") from None
    except (ValueError, IndexError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        said = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{where} is damaged: the description of its tensors cannot be read ({said})") from error
    if not machine.done:
        raise CheckpointError(f"{where} is damaged: the description of its tensors has no end")
    return machine.stack[-1]


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.done = False

    def do(self, name: str, argument: Any) -> None:
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _LITERALS:
            if isinstance(argument, int) and argument.bit_length() > _MOST_BITS:
                raise _Stopped("it holds a number of absurd size")
            self.stack.append(argument)
        elif name in ("PROTO", "FRAME"):
            return
        elif name == "STOP":
            if len(self.stack) != 1:
                raise ValueError("values are left over")
            self.done = True
        elif name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
            self.memo[len(self.memo) if name == "MEMOIZE" else int(argument)] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            self.stack.append(self.memo[int(argument)])
        elif name == "GLOBAL":
            self.stack.append(Name(str(argument).replace(" ", ".", 1)))
        else:
            work: Callable[[], None] | None = getattr(self, f"_{name.lower()}", None)
            if work is None:
                raise _Stopped(f"its description uses the instruction {name}, which state dictionaries do not need")
            work()

    def _stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        # a name made of names could be doubled again and again
        if not isinstance(name, str) or not isinstance(module, str) or len(name) + len(module) > _LONGEST_NAME:
            raise ValueError("a name is none")
        self.stack.append(Name(f"{module}.{name}"))

    def _mark(self) -> None:
        self.stack.append(_MARK)

    def _since_mark(self) -> list[Any]:
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                found = self.stack[place + 1 :]
                del self.stack[place:]
                return found
        raise ValueError("a mark is missing")

    def _pop(self) -> None:
        self.stack.pop()

    def _pop_mark(self) -> None:
        self._since_mark()

    def _dup(self) -> None:
        self.stack.append(self.stack[-1])

    def _tuple(self) -> None:
        self.stack.append(tuple(self._since_mark()))

    def _tuple1(self) -> None:
        self._join(1)

    def _tuple2(self) -> None:
        self._join(2)

    def _tuple3(self) -> None:
        self._join(3)

    def _join(self, count: int) -> None:
        if len(self.stack) < count:
            raise ValueError("a tuple lacks its parts")
        parts = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.stack.append(parts)

    def _list(self) -> None:
        self.stack.append(self._since_mark())

    def _dict(self) -> None:
        self.stack.append(_pairs(self._since_mark()))

    def _append(self) -> None:
        value = self.stack.pop()
        _container(self.stack[-1], list).append(value)

    def _appends(self) -> None:
        values = self._since_mark()
        _container(self.stack[-1], list).extend(values)

    def _additems(self) -> None:
        values = self._since_mark()
        _container(self.stack[-1], set).update(map(_key, values))

    def _frozenset(self) -> None:
        self.stack.append(frozenset(map(_key, self._since_mark())))

    def _setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _container(self.stack[-1], dict)[_key(key)] = value

    def _setitems(self) -> None:
        pairs = _pairs(self._since_mark())
        _container(self.stack[-1], dict).update(pairs)

    def _binpersid(self) -> None:
        self.stack.append(_storage(self.stack.pop()))

    def _reduce(self) -> None:
        arguments, called = self.stack.pop(), self.stack.pop()
        self.stack.append(_rebuilt(called, arguments))

    def _newobj(self) -> None:
        self.stack.pop()
        made = self.stack.pop()
        raise _Stopped(_object(made))

    def _newobj_ex(self) -> None:
        self.stack.pop()
        self._newobj()

    def _obj(self) -> None:
        raise _Stopped(_object((self._since_mark() or ["nothing"])[0]))

    def _build(self) -> None:
        state = self.stack.pop()  # attributes of a dictionary (`_metadata` of a state dict) hold no tensors
        if isinstance(self.stack[-1], Name):
            raise _Stopped(_object(self.stack[-1]))
        if isinstance(self.stack[-1], numpy_values.Unfinished):
            self.stack[-1].fill(state)


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": set,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
}
_LITERALS = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    )
)


def _container(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"items are put into a {type(value).__name__}")
    return value


def _pairs(flat: list[Any]) -> dict[Any, Any]:
    if len(flat) % 2:
        raise ValueError("a key has no value")
    return dict(zip(map(_key, flat[::2]), flat[1::2]))


def _key(key: Any) -> Any:
    """A key that costs nothing to look up: others can be made to take for ever, or to break the interpreter."""
    if isinstance(key, int) and key.bit_length() > 64:
        raise ValueError("a key is a number of absurd size")
    if isinstance(key, tuple) and len(key) <= 8 and all(isinstance(part, (str, int)) for part in key):
        return tuple(map(_key, key))
    if key is not None and not isinstance(key, (str, bytes, int, float)):
        raise ValueError(f"a key is a {type(key).__name__}")
    return key


def _object(made: Any) -> str:
    text = made.text if isinstance(made, Name) else type(made).__name__
    return (
        f"it holds an object of class {text}, not only tensors and plain values, and making that object would run "
        "code; save `model.state_dict()` instead"
    )


def _storage(id: Any) -> Storage:
    kind, dtype, key, _, count = id[:5]
    plain = isinstance(key, (str, int)) and isinstance(dtype, (Name, str))
    if kind != "storage" or not plain or not isinstance(count, int) or count < 0:
        raise ValueError("a storage is not described as PyTorch does it")
    text = dtype.text.rsplit(".", 1)[-1] if isinstance(dtype, Name) else dtype
    name = DTYPES.get(text, "bytes" if text == "UntypedStorage" else "")
    if not name:
        raise _Stopped(f"its storage {key} is of the type {text}, which is not known here")
    return Storage(name, str(key), count)


def _rebuilt(called: Any, arguments: Any) -> Any:
    text = called.text if isinstance(called, Name) else type(called).__name__
    if not isinstance(arguments, tuple):
        raise ValueError("a call has no arguments")
    if text == "collections.OrderedDict" and len(arguments) <= 1:
        return _pairs([part for pair in arguments[0] for part in pair]) if arguments else {}
    if text in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor"):
        return _tensor(arguments, True if len(arguments) > 4 and arguments[4] is True else None)
    if text == "torch._utils._rebuild_tensor_v3":  # dtypes without a storage class: 8-bit floats, uint16, …
        dtype = arguments[6].text.rsplit(".", 1)[-1] if isinstance(arguments[6], Name) else ""
        storage = arguments[0]._replace(dtype=dtype)
        return _tensor((storage, *arguments[1:]), True if arguments[4] is True else None)
    if text in ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"):
        tensor = arguments[0]
        if not isinstance(tensor, Strided):
            raise ValueError("a parameter has no tensor")
        return tensor._replace(trainable=bool(arguments[1]))
    if text in _HARMLESS_VALUES:
        return arguments[0] if arguments else None
    if text in numpy_values.NAMES:
        return numpy_values.rebuilt(text, arguments)
    raise _Stopped(f"loading it would call {text}, and a checkpoint needs no call; nothing was run")


def _tensor(arguments: tuple[Any, ...], trainable: bool | None) -> Strided:
    storage, offset, shape, strides = arguments[:4]
    shape, strides = tuple(shape), tuple(strides)
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, Storage) or len(shape) != len(strides) or len(shape) > 64:
        raise ValueError("a tensor is not described as PyTorch does it")
    if any(not isinstance(number, int) or isinstance(number, bool) or number < 0 for number in numbers):
        raise ValueError("a tensor has a shape that is none")
    return Strided(storage, offset, shape, strides, trainable)
