"""What is said of a tensor that an operator was given: facts in a few words, the same on every framework."""

from __future__ import annotations

from collections.abc import Mapping

Fact = float | int | str | None


def words(facts: Mapping[str, Fact]) -> str:
    """One input in a few words.

    >>> words({"shape": "32", "dtype": "float32", "count": 32, "zero": 3, "min": 0.0, "max": 2.5})
    'float32[32], 3 of 32 values are 0, from 0 to 2.5'
    """
    said = [f"{facts['dtype']}[{str(facts['shape']).replace('x', ', ')}]"]
    count = facts["count"]
    for key, what in (("nan", "NaN"), ("pos_inf", "inf"), ("neg_inf", "-inf"), ("zero", "0")):
        number = facts.get(key)
        if number:
            said.append(f"{number} of {count} values are {what}" if number != 1 else f"1 of {count} values is {what}")
    low, high = facts.get("min"), facts.get("max")
    if low is not None and high is not None:
        said.append(f"all {low:g}" if low == high and count != 1 else f"from {low:g} to {high:g}")
    return ", ".join(said)
