"""Tables of measurements in pages of the documentation."""

from __future__ import annotations

from pathlib import Path


def write(page: Path, begin: str, end: str, text: str) -> None:
    """Put the text between two marked lines of the page."""
    old = page.read_text()
    if begin not in old or end not in old:
        raise SystemExit(f"{page} has no place for the table: it needs the lines {begin} and {end}")
    head, _, rest = old.partition(begin)
    page.write_text(f"{head}{begin}\n\n{text}\n{end}{rest.partition(end)[2]}")
