"""Graphs: one file each, msgpack inside zlib, since headers of segments must stay small."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec

from tensight.errors import UNDECODABLE, DamagedError
from tensight.files import replacing
from tensight.records import Graph, GraphInfo
from tensight.store.codec import encode

FOLDER = "graphs"
MOST_BYTES = 1 << 30  # of a graph when unpacked
MOST_RATIO = 100  # real graphs pack to a tenth: a small file must not fill memory
SMALL = 16 << 20


def write(part: Path, graph: Graph, number: int) -> GraphInfo:
    """Write a graph; its file appears whole or not at all."""
    path = part / FOLDER / f"graph-{number}.bin"
    path.parent.mkdir(exist_ok=True)
    data = zlib.compress(encode(graph), 1)
    with replacing(path) as new:
        new.write_bytes(data)
    return GraphInfo(graph.name, graph.step, len(graph.nodes), f"{FOLDER}/{path.name}", len(data))


def read(part: Path, info: GraphInfo) -> Graph | None:
    """The graph of a file; None when the file is gone."""
    # the name comes from the log: nothing outside the folder is meant by it
    path = part / FOLDER / Path(info.file).name
    try:
        packed = path.read_bytes()
    except FileNotFoundError:
        return None
    unpacker = zlib.decompressobj()
    try:
        most = min(MOST_BYTES, max(SMALL, MOST_RATIO * len(packed)))
        data = unpacker.decompress(packed, most)
        if unpacker.unconsumed_tail:
            raise DamagedError(f"{path} is refused: its {len(packed):,} bytes unpack to more than {most:,}")
        graph = msgspec.msgpack.decode(data, type=Graph)
    except (zlib.error, *UNDECODABLE) as error:
        raise DamagedError(f"{path} is damaged: {error}") from error
    return _checked(graph, path)


def _checked(graph: Graph, path: Path) -> Graph:
    """Every number in it must be a place that there is: readers then need not look."""
    scopes, frames, stacks = len(graph.scopes), len(graph.frames), len(graph.stacks)
    good = all(0 <= place < frames for stack in graph.stacks for place in stack) and all(
        0 <= node.scope < scopes
        and -1 <= node.stack < stacks
        and -1 <= node.forward < place
        and all(0 <= one < place for one in node.inputs)
        for place, node in enumerate(graph.nodes)
    )
    if not good:
        raise DamagedError(f"{path} is damaged: a node refers to something that is not there")
    return graph
