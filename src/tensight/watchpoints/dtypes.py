"""What is known of number formats by their names, in the words of both frameworks."""

from __future__ import annotations

_FLOATS: dict[str, tuple[float, float]] = {
    # largest finite value, smallest normal value
    "float16": (65504.0, 2.0**-14),
    "bfloat16": (3.3895313892515355e38, 2.0**-126),
    "float32": (3.4028234663852886e38, 2.0**-126),
    "float64": (1.7976931348623157e308, 2.0**-1022),
    "float8_e4m3fn": (448.0, 2.0**-6),
    "float8_e4m3fnuz": (240.0, 2.0**-7),
    "float8_e5m2": (57344.0, 2.0**-14),
    "float8_e5m2fnuz": (57344.0, 2.0**-15),
    "hifloat8": (32768.0, 2.0**-15),
}

_OTHER_NAMES = {"half": "float16", "float": "float32", "double": "float64"}


def plain(dtype: str) -> str:
    """
    >>> plain("torch.float16"), plain("Float32"), plain("mindspore.bfloat16")
    ('float16', 'float32', 'bfloat16')
    """
    word = dtype.rpartition(".")[2].lower()
    return _OTHER_NAMES.get(word, word)


def is_float(dtype: str) -> bool:
    """Whether a dtype holds floating-point numbers; an unknown or unnamed one counts as such.

    >>> is_float("bfloat16"), is_float("int64"), is_float("")
    (True, False, True)
    """
    return not plain(dtype).startswith(("int", "uint", "bool", "long", "short", "char", "byte"))


def bounds(dtype: str) -> tuple[float, float] | tuple[int, int] | None:
    """The smallest and largest finite value of a dtype; None where the dtype is not known.

    >>> bounds("float16"), bounds("int8"), bounds("something")
    ((-65504.0, 65504.0), (-128, 127), None)
    """
    word = plain(dtype)
    if word in _FLOATS:
        return -_FLOATS[word][0], _FLOATS[word][0]
    unsigned, digits = word.startswith("u"), word.lstrip("uint")
    if not word.startswith(("int", "uint")) or not digits.isdigit():
        return None
    bits = int(digits)
    return (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def smallest_normal(dtype: str) -> float | None:
    """The smallest value a float dtype holds at full precision; None for others.

    >>> smallest_normal("float16")
    6.103515625e-05
    """
    known = _FLOATS.get(plain(dtype))
    return None if known is None else known[1]
