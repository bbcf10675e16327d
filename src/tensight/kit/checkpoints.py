"""Checkpoints that are whole or not there: written beside, then renamed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from tensight.compare import checkpoints
from tensight.errors import CheckpointError, UsageError
from tensight.kit.backend import Array, backend_of

FORMATS = {"safetensors": ".safetensors", "torch": ".pt", "mindspore": ".ckpt"}
UNFINISHED = ".new"
Write = Callable[[Path], None]


def save_checkpoint(
    save_obj: Any,
    ckpt_file_name: str | Path,
    *,
    optimizer: Any = None,
    format: str | None = None,
    info: Mapping[str, Any] | None = None,
) -> Path:
    """Save a network's parameters and buffers; the file is whole or not there, whenever the process is killed.

    The format is that of the name's ending (`.safetensors`, `.pt` by PyTorch, `.ckpt` by MindSpore); another ending is
    kept and the file is written as safetensors. The framework's own formats hold the optimizer's state as well.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_checkpoint(torch.nn.Linear(2, 1), f"{folder}/net.safetensors")
    ...     sorted(load_checkpoint(path))
    ['bias', 'weight']
    """
    path = Path(ckpt_file_name)
    write = writer(save_obj, optimizer, format or format_of(path, save_obj), info or {})
    write_whole(path, write)
    return path


def load_checkpoint(ckpt_file_name: str | Path, net: Any = None) -> dict[str, Array]:
    """The values of a checkpoint by name; with `net` they are put into the network as well.

    No code in the file is run.

    >>> import tempfile, torch
    >>> one, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     values = load_checkpoint(save_checkpoint(one, f"{folder}/net.pt"), other)
    >>> torch.equal(one.weight, other.weight)
    True
    """
    path = Path(ckpt_file_name)
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such checkpoint")
    values = _read(path)
    if net is not None:
        backend_of(net).load_state(net, values)
    return values


def format_of(path: Path, network: Any) -> str:
    """The format that a file name asks for."""
    if path.suffix in (".pt", ".pth"):
        return "torch"
    if path.suffix == ".ckpt" and backend_of(network).name == "mindspore":
        return "mindspore"
    return "safetensors"


def writer(network: Any, optimizer: Any, format: str, info: Mapping[str, Any]) -> Write:
    """What writes the network as it is now: copies are made here, so that it may be called later and elsewhere."""
    if format not in FORMATS:
        raise UsageError(f"a checkpoint's format is one of {', '.join(FORMATS)}, not {format!r}")
    own = backend_of(network)
    if format == "safetensors":
        values = own.state(network)
        words = {key: str(value) for key, value in info.items()}
        return lambda path: safetensors.numpy.save_file(values, path, metadata=words)
    if format != own.name:
        raise UsageError(f"a {own.name} network is saved as {own.name} or safetensors, not as {format}")
    return own.native(network, optimizer, info)


def write_whole(path: Path, write: Write) -> None:
    """Write a file so that under its name there is, at every moment, the old one, the new one or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}{path.suffix}")
    try:
        write(unfinished)
        _flush(unfinished)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    _flush(path.parent)


def remove_unfinished(folder: Path) -> None:
    """Clear away what killed processes have left behind."""
    for path in folder.glob(f".*{UNFINISHED}.*"):
        owner = path.name.partition(f"{UNFINISHED}.")[0].rpartition(".")[2]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            with contextlib.suppress(OSError):
                path.unlink()


def _flush(path: Path) -> None:
    """To the disk, so that a rename never comes before the bytes it names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(path: Path) -> dict[str, Array]:
    found = checkpoints.read(path)
    prefix = "model." if "model" in found.nested else ""
    return {
        name.removeprefix(prefix): np.array(entry.numpy())
        for name, entry in found.entries.items()
        if name.startswith(prefix)
    }
