"""Give every parser inputs that are nearly right, and count what is not answered by a result or a sentence.

    python benchmarks/fuzz.py --cases 100000
    python benchmarks/fuzz.py --only expression --cases 1000000
    python benchmarks/fuzz.py --only expression --case 4711

Each parser works in a process of its own whose memory is limited. A crash is any error that is not Tensight's own, a
message of several lines, a case that takes more than a second of the processor, or the end of the process. The cases
come from a seed: the same number is the same case. With `--engine atheris` (Linux, `pip install atheris`) the cases are
led by the lines they reach instead.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

HANG = 1.0  # seconds of the processor that one case may take


def main() -> int:
    """Try the parsers; exit code 1 when one has crashed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, help="for each parser")
    parser.add_argument("--only", action="append", help="this parser alone (repeat)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="one case by its number")
    parser.add_argument("--hang", type=float, default=HANG, help="seconds of the processor that one case may take")
    parser.add_argument("--engine", choices=("mutate", "atheris"), default="mutate")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.engine == "atheris":
        return _by_atheris(options.only or [], options.cases)
    from tests.fuzz.parsers import PARSERS
    from tests.fuzz.trying import MEMORY, try_parser

    if unknown := sorted(set(options.only or ()) - set(PARSERS)):
        parser.error(f"there is no parser {unknown[0]!r}: there are {', '.join(PARSERS)}")
    chosen = [PARSERS[name] for name in options.only or PARSERS]
    cases = range(options.case, options.case + 1) if options.case is not None else range(options.cases)
    outcomes = []
    for one in chosen:
        outcomes.append(try_parser(one, cases, options.seed, hang=options.hang))
        if not options.json:
            _print(outcomes[-1])
    if options.json:
        print(json.dumps({"memory": MEMORY, "parsers": [asdict(one) for one in outcomes]}))
    return int(any(one.crashes for one in outcomes))


def _print(one: Any) -> None:
    print(
        f"{one.name:<22} {one.cases:>8} cases  {one.read:>8} read  {one.refused:>8} refused  {one.failed:>3} crashes"
        f"  slowest {one.slowest * 1000:>7.1f} ms  memory {one.memory / 2**20:>6.1f} MiB",
        flush=True,
    )
    for crash in one.crashes:
        print(f"  {crash}")


def _by_atheris(names: list[str], cases: int) -> int:
    """One parser, led by coverage; atheris ends the process when it finds a crash."""
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["tensight"], enable_loader_override=False):
        from tensight.errors import TensightError
        from tests.fuzz.parsers import PARSERS
    if len(names) != 1 or names[0] not in PARSERS:
        print(f"atheris tries one parser at a time: say by --only which of {', '.join(PARSERS)}", file=sys.stderr)
        return 2

    folder = Path(tempfile.mkdtemp(prefix="tensight-atheris-"))
    prepared = PARSERS[names[0]].prepare(folder)
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, good in enumerate(prepared.corpus):
        (corpus / str(number)).write_bytes(good)

    def one(data: bytes) -> None:
        try:
            prepared.read(data)
        except TensightError:
            pass

    atheris.Setup(
        [sys.argv[0], f"-runs={cases}", "-timeout=5", "-rss_limit_mb=4096", "-max_len=65536", str(corpus)], one
    )
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
