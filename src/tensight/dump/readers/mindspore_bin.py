"""MindSpore dumps of r1.1 and r1.2: plain values, everything else in the file's name.

`…/device_{d}/iteration_{i}/{name with -- for /}_{input|output}_{slot}_shape_{d_d_d}_{dtype}_{format}.bin`
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tensight.dump.readers.base import HELD, Dumped, Found, Raw, Tree, numbered, rank_of
from tensight.dump.readers.mindspore_names import describe
from tensight.errors import TensightError

_NAME = re.compile(
    r"(?P<name>.+)_(?P<io>input|output)_(?P<slot>\d{1,9})_shape_(?P<shape>(?:\d{1,18}_)*)"
    r"(?P<dtype>[A-Za-z][A-Za-z]*\d*)_(?P<format>\w+)\.bin",
    re.DOTALL,
)
_DTYPES = {"float": "float32", "double": "float64", "half": "float16", "int": "int32", "uint": "uint32", "bool": "bool"}


def read(tree: Tree, found: Found) -> Iterator[Dumped]:
    for folder, files in tree.all():
        iteration = numbered(folder.name, "iteration_")
        if iteration is None:
            continue
        found.framework = found.framework or "mindspore"
        rank = rank_of(tree.root, folder, "device_", "rank_")
        inside = numbered(folder.parent.name, "device_") is not None
        network = folder.parent.parent.name if inside else folder.parent.name
        for place, (name, size) in enumerate(sorted(files.items())):
            if not name.endswith(".bin"):
                continue
            try:
                yield _dumped(folder / name, size, rank, iteration, network, place)
            except (TensightError, ValueError) as error:
                found.trouble(f"{tree.name(folder)}: {error}")


def _dumped(path: Path, size: int, rank: int, iteration: int, network: str, place: int) -> Dumped:
    parts = _NAME.fullmatch(path.name)
    if parts is None:
        raise ValueError(f"{path.name[:120]}: its name is none of a dump of r1.1, so it was left out")
    dtype = parts["dtype"].lower()
    dtype = _DTYPES.get(dtype, dtype)
    if dtype not in HELD:
        raise ValueError(f"{path.name[:120]}: its dtype {parts['dtype']} is not known")
    shape = tuple(int(one) for one in parts["shape"].split("_") if one)
    raw = Raw(path, 0, dtype, HELD[dtype], shape).check(size)
    if raw.nbytes != size:
        raise ValueError(f"{path.name[:120]} has {size:,} bytes, and its name claims {raw.nbytes:,}")
    full = parts["name"].replace("--", "/")
    type = re.sub(r"-op\d+$", "", full.rpartition("/")[2])
    is_parameter = "/" not in full and "-op" not in full
    info = describe(full, "Parameter" if is_parameter else type, parts["io"], int(parts["slot"]), shape, dtype, network)
    return Dumped(rank, iteration, float(place), info, raw, None, full)
