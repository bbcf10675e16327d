"""What watching a MindSpore training costs, in PyNative and in graph mode, with a second bare training as control.

    python benchmarks/mindspore_cost.py --write                   the table in docs/explanation/mindspore-cost.md
    python benchmarks/mindspore_cost.py --write --only lenet      only that network's rows of it
    python benchmarks/mindspore_cost.py --only lenet --options='--level op'

Measured as in `benchmarks/overhead.py`: a bare and a watched process are alive at once and take turns.
"""

from __future__ import annotations

import platform
import sys
import time
from pathlib import Path

import overhead
from overhead import Network

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "explanation" / "mindspore-cost.md"
NETWORKS = {
    "lenet": Network(6, 5, 12),
    "lenet-graph": Network(20, 3, 12),
    "transformer": Network(1, 12, 10),
    "transformer-graph": Network(2, 6, 10),
}
OPTIONS = ["", "--budget 100"]
PAIRS = 2  # of each kind
HEAD = "| network (bare step) | options | wall time over bare | CPU time over bare |\n| --- | --- | --- | --- |"
START, END = "<!-- table -->", "<!-- end of table -->"


def write(rows: dict[str, list[str]]) -> None:
    """Put rows into the page's table, between its marks; those of networks that were not measured now stay."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    table, _, after = rest.partition(END)
    for name in NETWORKS:
        rows.setdefault(name, [line for line in table.splitlines() if line.startswith(f"| {name} ")])
    where = f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}."
    lines = [HEAD, *(row for name in NETWORKS for row in rows[name])]
    PAGE.write_text(f"{before}{START}\n{where}\n\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = overhead.arguments(__doc__, list(NETWORKS), PAIRS)
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(HERE.parent)}")
    given = parser.parse_args()
    if given.write and given.options:
        parser.error("--write is for the options of the table: leave out --options")
    overhead.PROGRAM = HERE / "programs" / "mindspore_training.py"
    rows: dict[str, list[str]] = {}
    print(HEAD, flush=True)
    for name in given.only or NETWORKS:
        begun = time.monotonic()
        network = NETWORKS[name]
        if given.blocks:
            network = network._replace(blocks=given.blocks)
        options = OPTIONS if given.options is None else given.options
        rows[name] = []
        for line in overhead.rows(name, options, network, given.pairs):
            print(line, flush=True)
            rows[name].append(line)
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    if given.write:
        write(rows)


if __name__ == "__main__":
    main()
