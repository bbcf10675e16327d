"""What `tensight profile` prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tensight.cli.printing import print_table
from tensight.diagnosis.words import per_second
from tensight.profiling import Advice, Reading
from tensight.profiling.difference import TimeDifference
from tensight.profiling.rule import milliseconds, percent
from tensight.profiling.trace import TraceSummary
from tensight.records import Source
from tensight.records.timing import PARTS, LoaderTime, Tried
from tensight.runs.blocks import finding_block, folded, plain

BAR = 30
STEP = "ProfilerStep#"
DISTURBED = 0.1  # of a step without a processor, from which on the figures need a word
LONGEST = 40  # characters of a place in a table


def show(reading: Reading, advice: Sequence[Advice], *, most: int = 10) -> None:
    """The whole report of one rank."""
    profile = reading.profile
    if not profile.steps:
        if not profile.operators:
            click.echo("no step was made, so there is nothing to say about its time")
            return
        for note in profile.notes:
            click.echo(f"note: {plain(note)}")
        _operators(reading, most)
        return
    own = f"; measuring took {milliseconds(reading.own)} a step, which is left out" if reading.own else ""
    rate = f"{per_second(reading.seconds)} steps/s" if reading.seconds else ""
    head = f"a step takes {milliseconds(reading.seconds)} ({rate}, {len(reading.clocked)} steps clocked){own}"
    click.echo("\n".join(folded(head)) + "\n")
    for part in PARTS:
        share = reading.share(part)
        bar = "█" * round(BAR * share)
        click.echo(f"  {part:<9} {milliseconds(reading.split[part]):>10}  {percent(share):>5}  {bar}")
    _more(reading)
    _operators(reading, most)
    _lines(reading, most)
    if not advice:
        click.echo("\nnothing was found that costs much time")
    for one in advice:
        click.echo("\n" + finding_block(one.finding()).replace("step 0  ", "", 1))


def _more(reading: Reading) -> None:
    profile = reading.profile
    seconds = [time.seconds for time in reading.clocked]
    p50, p99 = reading.percentile(seconds, 50), reading.percentile(seconds, 99)
    slowest = milliseconds(max(seconds, default=0.0))
    rows = [f"steps   median {milliseconds(p50)}, 99th percentile {milliseconds(p99)}, the slowest {slowest}"]
    loader = reading.loader
    if loader is not None and loader.waits:
        wait = reading.percentile(loader.waits, 50)
        late = reading.percentile(loader.waits, 99)
        empty = sum(one > 0.001 for one in loader.waits) / len(loader.waits)
        rows.append(
            f"batches median wait {milliseconds(wait)}, 99th percentile {milliseconds(late)}; queue empty "
            f"{percent(empty)} of the time; {_workers(reading, loader)}, batch size {loader.batch_size}"
        )
    if reading.flops:
        speed = reading.flops / reading.seconds
        use = reading.utilisation
        share = percent(use) if use is not None and use >= 0.01 else "less than 1 %"
        reached = f", {share} of what a large matrix product reaches here" if use is not None else ""
        rows.append(f"work    {reading.flops / 1e9:.3g} GFLOP a step, {speed / 1e9:.3g} GFLOP/s{reached}")
    if reading.processors:
        cores = int(reading.number("cores"))
        busy = f"; the training's thread waits {percent(reading.delayed)} of a step for one" if reading.delayed else ""
        if reading.delayed >= DISTURBED:
            busy += ": other programs have them; the advice leaves that time out"
        rows.append(f"cpu     {reading.processors:.2f}{f' of {cores}' if cores else ''} processors busy{busy}")
    if profile.memory.peak:
        owners = ", ".join(f"{one.what} {_bytes(one.bytes)}" for one in profile.memory.owners[:3])
        rows.append(f"memory  peak {_bytes(profile.memory.peak)} above the step's start: {owners}")
    sent = reading.number("ddp.backward_comm")
    if sent:
        hidden = reading.number("ddp.backward_compute_comm_overlap") / sent
        rows.append(
            f"ranks   {milliseconds(sent)} of sending gradients, {percent(hidden)} of it hidden behind backward"
        )
    compiling = profile.compiling
    if compiling.seconds or compiling.graphs:
        again = sum(one.count for one in compiling.recompiles)
        breaks = sum(one.count for one in compiling.breaks)
        rows.append(
            f"compile {milliseconds(compiling.seconds)} in all, not part of a step: {compiling.graphs} graphs, "
            f"{breaks} breaks, {again} compiled again"
        )
    if profile.collecting.collections:
        took = milliseconds(profile.collecting.seconds)
        count = profile.collecting.collections
        rows.append(f"garbage {count} collection{'' if count == 1 else 's'}, {took} in all clocked steps")
    cost = reading.trace_cost
    if cost is not None:
        rows.append(f"tracing made a step {cost:.2f} times as long; parts and lines are of steps without it")
    click.echo()
    for row in (*rows, *(f"note: {plain(note)}" for note in profile.notes)):
        click.echo("\n".join(folded(f"  {row}", indent=" " * 10)))


def _workers(reading: Reading, loader: LoaderTime) -> str:
    use = reading.worker_use(loader)
    return f"{loader.workers} workers" + (f" that compute {percent(use)} of the time" if use is not None else "")


def _operators(reading: Reading, most: int) -> None:
    steps = max(1.0, reading.number("traced_steps"))
    whole = reading.number("operator_seconds") or 1.0
    rows = [
        (
            one.name,
            one.shapes,
            one.dtypes,
            f"{one.calls / steps:.0f}",
            milliseconds(one.seconds / steps),
            percent(one.seconds / whole),
        )
        for one in reading.profile.operators[:most]
    ]
    if rows:
        click.echo()
        head = "a step" if reading.profile.steps else "in all"
        print_table(("operator", "shapes", "dtypes", "calls", head, "share"), rows)


def _lines(reading: Reading, most: int) -> None:
    sums: dict[tuple[str, int], tuple[float, str, Source]] = {}
    for line in reading.profile.lines:
        key = (line.source.file, line.source.line)
        before = sums.get(key, (0.0, line.part, line.source))
        sums[key] = (before[0] + line.share, before[1], before[2])
    rows = [
        (_place(source), percent(share), part, source.code)
        for share, part, source in sorted(sums.values(), key=lambda row: -row[0])[:most]
        if share >= 0.005
    ]
    if rows:
        click.echo()
        print_table(("line", "time", "part", "code"), rows)


def _place(source: Source) -> str:
    """File and line, short enough to stand in one row: the end of a path tells more than its beginning.

    >>> _place(Source("train.py", 7)), _place(Source("/home/somebody/experiments/of/this/year/vision/train.py", 7))
    ('train.py:7', '…/of/this/year/vision/train.py:7')
    """
    words = f"{source.file}:{source.line}".split("/")
    while len("/".join(words)) > LONGEST and len(words) > 1:
        words = ["…", *words[2:]] if words[0] == "…" else ["…", *words[1:]]
    return "/".join(words)


def show_tried(tried: Sequence[Tried]) -> None:
    if not tried:
        click.echo("\nnothing could be tried: the script did not make enough steps on its own")
        return
    click.echo()
    rows = [
        (one.change, milliseconds(one.before), milliseconds(one.after), f"{100 * one.gain:+.0f} %", one.note)
        for one in tried
    ]
    print_table(("tried", "before", "after", "saved", ""), rows)


def show_ranks(readings: Sequence[Reading]) -> None:
    rows = [
        (reading.profile.rank, milliseconds(reading.seconds), *(milliseconds(reading.split[part]) for part in PARTS))
        for reading in readings
    ]
    click.echo()
    print_table(("rank", "step", *PARTS), rows)


def show_difference(found: TimeDifference, most: int = 15) -> None:
    def row(one: object) -> tuple[str, str, str, str]:
        what, before, after = (getattr(one, name) for name in ("what", "before", "after"))
        change = f"{100 * (after / before - 1):+.0f} %" if before else "new" if after else ""
        return (what, milliseconds(before), milliseconds(after), change)

    print_table(("", "before", "after", "change"), [row(found.step), *map(row, found.parts)])
    click.echo()
    print_table(("operator", "before", "after", "change"), [row(one) for one in found.operators[:most]])
    if found.settings:
        click.echo()
        print_table(("setting", "before", "after"), found.settings)


def show_trace(path: Path, summary: TraceSummary, most: int = 20) -> None:
    click.echo(
        f"{path}: {summary.events} events of {summary.seconds:.3f} s, {len(summary.rows)} names, "
        f"{len(summary.steps)} steps"
    )
    # torch.profiler's span over everything it saw, and the steps that stand in the line above, are no work
    named = (item for item in summary.rows.items() if item[0][0] != "Trace" and not item[0][1].startswith(STEP))
    rows = sorted(named, key=lambda item: -item[1].own)[:most]
    print_table(
        ("name", "kind", "calls", "own", "whole", "longest"),
        [
            (name, category, row.calls, *(milliseconds(value) for value in (row.own, row.seconds, row.longest)))
            for (category, name), row in rows
        ],
    )


def _bytes(size: int) -> str:
    """
    >>> _bytes(5_300_000), _bytes(800)
    ('5.3 MB', '800 B')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"
