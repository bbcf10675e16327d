"""A checkpoint in several files, with an index that says which tensor is in which: `model.safetensors.index.json`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tensight.compare.checkpoints.entry import Checkpoint
from tensight.errors import CheckpointError

ENDING = ".index.json"
_MOST_INDEX = 256 << 20


def read(path: Path, one: Callable[[Path], Checkpoint]) -> Checkpoint:
    """All shards as one checkpoint; `one` reads a single file. A tensor that is not where the index says is refused."""
    try:
        if path.stat().st_size > _MOST_INDEX:
            raise CheckpointError(f"{path} is refused: an index of {path.stat().st_size:,} bytes")
        places = json.loads(path.read_bytes())["weight_map"]
        if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
            raise TypeError("its weight_map is no table of files")
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path} is no index of a checkpoint: {error}") from error
    shards: dict[str, Checkpoint] = {}
    for file in dict.fromkeys(places.values()):
        if Path(file).name != file or file in (".", ".."):
            raise CheckpointError(f"{path} is refused: it names {file[:80]!r}, which is no file beside it")
        shards[file] = one(path.parent / file)
    whole = Checkpoint(path, "shards", next((shard.framework for shard in shards.values()), ""), {})
    for name, file in places.items():
        if name not in shards[file].entries:
            raise CheckpointError(f"{path} says that {name[:80]} is in {file}, and it is not")
        whole.entries[name] = shards[file].entries[name]
    for file, shard in shards.items():
        for name in shard.entries:
            if places.get(name) != file:
                raise CheckpointError(f"{file} holds {name[:80]}, of which the index {path.name} knows nothing")
        whole.values |= shard.values
        whole.unread |= shard.unread
    whole.nested = frozenset().union(*(shard.nested for shard in shards.values()))
    return whole
