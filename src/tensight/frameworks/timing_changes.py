"""What can be tried on a training from outside, by name: `tensight profile --try-change`. Knows no framework."""

from __future__ import annotations

from tensight.errors import UsageError

# change → an example of the number it takes, '' where it takes none
KNOWN = {
    "workers": "4",
    "prefetch": "8",
    "pinned": "",
    "channels_last": "",
    "bfloat16": "",
    "compile": "",
    "batch": "2",
    "bucket": "25",
    "fused": "",
    "threads": "1",
    "collector": "",
}
WHOLE = frozenset(("workers", "prefetch", "threads"))


def read_change(text: str) -> tuple[str, str]:
    """A change and its number, '' for one that takes none; refused before the script has run for minutes.

    >>> read_change("workers=4"), read_change("fused")
    (('workers', '4'), ('fused', ''))
    """
    name, said, value = text.partition("=")
    if name not in KNOWN:
        raise UsageError(f"the change {text!r} is none of {', '.join(_shown(one) for one in KNOWN)}")
    if not KNOWN[name]:
        if said:
            raise UsageError(f"the change {text!r} takes no number: write {name}")
        return name, ""
    try:
        number = int(value) if name in WHOLE else float(value)
    except ValueError:
        number = -1
    if not number >= (0 if name == "workers" else 1 if name in WHOLE else 1e-9) or number == float("inf"):
        raise UsageError(f"the change {text!r} needs a number: write e.g. {_shown(name)}")
    return name, value


def _shown(name: str) -> str:
    return f"{name}={KNOWN[name]}" if KNOWN[name] else name
