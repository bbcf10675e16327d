"""MindSpore dumps of r1.3 on: `rank_{r}/{net}/{graph}/{iteration}/{type}.{name}.….{input|output}.{slot}.….npy`.

Dumps that Tensight itself made have the same layout, and a list that says more about each name.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tensight.dump import anf, layout
from tensight.dump.naming import DTYPES, flat
from tensight.dump.readers import npy
from tensight.dump.readers.base import HELD, Dumped, Found, Raw, Tree, numbered, rank_of
from tensight.dump.readers.mindspore_names import describe
from tensight.errors import DamagedError, TensightError
from tensight.records import Source, TensorInfo

_NAME = re.compile(
    r"(?P<type>[^.]+)\.(?P<name>.+)\.(?P<task>\d+)\.(?P<stream>\d+)\.(?P<time>\d{1,18})\."
    r"(?P<io>input|output)\.(?P<slot>\d{1,9})\.(?P<format>\w+?)(?:\.(?P<dtype>\w+))?\.(?P<suffix>npy|bin)",
    re.DOTALL,
)
_OWN = {word.lower(): name for name, word in DTYPES.items()}
_MOST_TEXT = 256 << 20


class Parts(NamedTuple):
    """A file's name taken apart."""

    type: str
    name: str
    time: int
    io: str
    slot: int
    dtype: str
    suffix: str


def parse_name(name: str) -> Parts | None:
    """
    >>> parse_name("MatMul.Default_fc_MatMul-op0.0.0.17.output.0.DefaultFormat.Float32.npy")
    Parts(type='MatMul', name='Default_fc_MatMul-op0', time=17, io='output', slot=0, dtype='float32', suffix='npy')
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    dtype = _OWN.get((found["dtype"] or "").lower(), "")
    return Parts(
        found["type"], found["name"], int(found["time"]), found["io"], int(found["slot"]), dtype, found["suffix"]
    )


class Names:
    """Full names, what they stand for and where they came from, of one rank."""

    def __init__(self) -> None:
        self.full: dict[str, str] = {}  # by the name as files have it
        self.infos: dict[tuple[str, str, int], TensorInfo] = {}
        self.sources: dict[str, Source] = {}

    def add(self, name: str) -> None:
        self.full.setdefault(flat(name), name)

    def find(self, name: str) -> str:
        """The full name for one of a file; itself when nothing is known of it."""
        return self.full.get(flat(name), name)


def read(tree: Tree, found: Found) -> Iterator[Dumped]:
    names: dict[int, Names] = {}
    for folder, files in tree.all():
        iteration = numbered(folder.name)
        constant = folder.name == "constants"
        if iteration is None and not constant:
            continue
        rank = rank_of(tree.root, folder, "rank_")
        mapping: dict[str, str] | None = None
        for name, size in files.items():
            if not name.endswith((".npy", ".bin")):
                continue
            parts = parse_name(name)
            if parts is None:
                if mapping is None:
                    mapping = _mapping(folder, files, found, tree)
                parts = parse_name(mapping.get(name, ""))
            if parts is None:
                if name.endswith(".npy"):
                    found.trouble(f"{tree.name(folder / name)}: its name is none of a dump, so it was left out")
                continue
            if rank not in names:
                names[rank] = rank_names(tree, found, rank)
            tree.visit.at(folder / name)  # its header alone is read, which has a limit
            try:
                yield _dumped(folder / name, size, parts, rank, iteration or 0, names[rank])
            except (TensightError, OSError) as error:
                found.trouble(f"{tree.name(folder)}: {error}")


def _dumped(path: Path, size: int, parts: Parts, rank: int, iteration: int, names: Names) -> Dumped:
    full = names.find(parts.name)
    known = names.infos.get((full, parts.io, parts.slot))
    raw = npy.header(path, size) if parts.suffix == "npy" else _plain(path, size, known)
    dtype = parts.dtype or raw.dtype
    network = path.parent.parent.parent.name if known is None else known.network
    if known is not None:
        info = msgspec.structs.replace(known, shape=raw.shape)
    else:
        source = names.sources.get(full)
        info = describe(full, parts.type, parts.io, parts.slot, raw.shape, dtype, network, source)
    return Dumped(rank, iteration, float(parts.time), info, raw, None, full)


def _plain(path: Path, size: int, known: TensorInfo | None) -> Raw:
    if known is None:
        raise DamagedError(f"{path.name} holds plain values, and nothing says of which shape they are")
    dtype = (
        known.dtype if known.dtype in ("float16", "float32", "float64", "bool") or "int" in known.dtype else "float32"
    )
    return Raw(path, 0, dtype, HELD[dtype], known.shape).check(size)


def rank_names(tree: Tree, found: Found, rank: int) -> Names:
    """What the files beside the tensors tell about names: order of execution, graphs, Tensight's own list."""
    names = Names()
    for folder, files in tree.all():
        if rank_of(tree.root, folder, "rank_") != rank:
            continue
        for name, size in files.items():
            path = folder / name
            if size > _MOST_TEXT or folder.name not in (layout.ORDERS, layout.GRAPHS, layout.METADATA):
                continue
            tree.visit.at(path, size)
            try:
                if folder.name == layout.ORDERS and name.startswith("ms_execution_order"):
                    _order(path, names, found.orders.setdefault(rank, {}))
                elif folder.name == layout.GRAPHS and name.endswith(".pb"):
                    _graph(path, names, found, rank)
                elif name == layout.TENSORS:
                    _own_list(path, names)
                elif name == "config.json":
                    _config(path, found)
            except (TensightError, OSError, ValueError, UnicodeDecodeError, msgspec.ValidationError) as error:
                found.trouble(f"{tree.name(path)} cannot be read: {error}")
    return names


def _order(path: Path, names: Names, order: dict[str, int]) -> None:
    for line in path.read_text("utf-8").splitlines()[1:]:
        if line:
            names.add(line)
            order.setdefault(line, len(order))


def _graph(path: Path, names: Names, found: Found, rank: int) -> None:
    graph = anf.read(path)
    found.graphs[rank, path.stem.rpartition("trace_code_")[2] or path.stem] = graph
    for node in graph.nodes.values():
        names.add(node.name)
        for one in node.inputs:
            names.add(one)
        if node.stack:
            names.sources.setdefault(node.name, user_line(node.stack))


def user_line(stack: tuple[Source, ...]) -> Source:
    """The innermost line that is no library's."""
    return next((line for line in stack if "site-packages" not in line.file), stack[0])


def _own_list(path: Path, names: Names) -> None:
    for line in path.read_text("utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        info = msgspec.convert({"id": -1, **row["info"]}, TensorInfo)
        names.add(row["name"])
        names.infos[row["name"], row["io"], int(row["slot"])] = info


def _config(path: Path, found: Found) -> None:
    facts = json.loads(path.read_text("utf-8"))
    if isinstance(facts, dict):
        framework, version = str(facts.get("framework", "mindspore"))[:40], str(facts.get("ms_version", ""))[:40]
        if found.version and (framework, version) != (found.framework, found.version):
            found.trouble(
                f"ranks were dumped by different versions: {found.framework} {found.version} and {framework} {version}"
            )
        found.framework, found.version = framework, version


def _mapping(folder: Path, files: dict[str, int], found: Found, tree: Tree) -> dict[str, str]:
    """Long names by the short ones that stand for them."""
    if files.get(layout.MAPPING, _MOST_TEXT + 1) > _MOST_TEXT:
        return {}
    tree.visit.at(folder / layout.MAPPING, files[layout.MAPPING])
    try:
        with open(folder / layout.MAPPING, encoding="utf-8", newline="") as file:
            return {row[0]: row[1] for row in csv.reader(file) if len(row) == 2}
    except (OSError, ValueError, csv.Error) as error:
        found.trouble(f"{tree.name(folder / layout.MAPPING)} cannot be read: {error}")
        return {}
