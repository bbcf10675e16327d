"""Patterns that somebody else wrote."""

from __future__ import annotations

import pytest

from tensight.errors import UsageError
from tensight.records.patterns import compiled


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(a", "'(a' is no regular expression: missing ), unterminated subpattern at position 0"),
        ("a{9999999999999}", "is no regular expression: the repetition number is too large"),
        ("(" * 5000 + ")" * 5000, "(((…' is no regular expression: it is nested too deeply"),
    ],
)
def test_a_pattern_that_cannot_be_compiled_gets_one_sentence(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        compiled(text)
    assert why in str(refused.value)
    assert len(str(refused.value)) < 200
