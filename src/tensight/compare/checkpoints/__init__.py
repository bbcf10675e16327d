"""Checkpoints of PyTorch, MindSpore and safetensors: read without either framework, and without running anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tensight.compare.checkpoints import mindspore_file, safetensors_file, shards, torch_file, torch_writing
from tensight.compare.checkpoints.entry import Checkpoint, Entry, Plain, mapped
from tensight.errors import CheckpointError, UsageError
from tensight.workers.limited import try_reading

Write = Callable[[Path, Iterable[Entry], dict[str, Plain], str], None]

# ending of a file → who writes it, and whose names such a file has ('' keeps those of the source)
WRITERS: dict[str, tuple[Write, str]] = {
    ".safetensors": (safetensors_file.write, ""),
    ".pt": (torch_writing.write, "torch"),
    ".pth": (torch_writing.write, "torch"),
    ".bin": (torch_writing.write, "torch"),
    ".ckpt": (mindspore_file.write, "mindspore"),
}


def read(path: str | Path) -> Checkpoint:
    """Open a checkpoint of any known format; a CheckpointError says in one sentence why it cannot be read."""
    path = Path(path)
    if path.name.endswith(shards.ENDING):
        return shards.read(path, read)
    file = mapped(path)
    head, size = bytes(file[:64]), int(file.size)
    checkpoint = _reader(head, size, path)(path)
    if not checkpoint.framework:
        checkpoint.framework = guessed(checkpoint.entries)
    return checkpoint


def read_foreign(path: str | Path) -> Checkpoint:
    """Open a checkpoint that somebody else may have written: a child with little memory and time reads it first."""
    path = Path(path)
    try_reading(read, path)
    return read(path)


def _reader(head: bytes, size: int, path: Path) -> Callable[[Path], Checkpoint]:
    if head.startswith(torch_file.MAGIC):
        return torch_file.read
    if head.startswith(torch_file.LEGACY):
        return torch_file.refuse_legacy
    if safetensors_file.matches(head, size) or path.suffix == ".safetensors":
        return safetensors_file.read
    if mindspore_file.matches(head, size):
        return mindspore_file.read
    if head[:1] == b"\x80" and path.suffix != ".ckpt":
        raise CheckpointError(f"{path} is a bare pickle: loading it could run anything, so it is not read")
    raise CheckpointError(
        f"{path} is no whole PyTorch (.pt, .pth), safetensors or MindSpore (.ckpt) checkpoint: "
        "its beginning is that of none of them"
    )


def is_checkpoint(path: str | Path) -> bool:
    """Whether a path is meant as a checkpoint, and not as a run."""
    path = Path(path)
    return path.is_file() and (path.suffix in (*WRITERS, ".th", ".pkl", ".npz") or path.name.endswith(shards.ENDING))


def guessed(entries: Iterable[str]) -> str:
    """Whose names these are, where they tell.

    >>> guessed(["bn.gamma", "bn.moving_mean"]), guessed(["bn.running_mean"]), guessed(["fc.weight"])
    ('mindspore', 'torch', '')
    """
    slots = {name.rpartition(".")[2] for name in entries}
    if slots & {"gamma", "beta", "moving_mean", "moving_variance", "embedding_table"}:
        return "mindspore"
    if slots & {"running_mean", "running_var", "num_batches_tracked"}:
        return "torch"
    return ""


def writer(path: Path) -> tuple[Write, str]:
    """Who writes a file of this ending."""
    if path.suffix not in WRITERS:
        known = ", ".join(WRITERS)
        raise UsageError(f"{path}: the ending says which format to write, and must be one of {known}")
    return WRITERS[path.suffix]


__all__ = ["WRITERS", "Checkpoint", "Entry", "Plain", "guessed", "is_checkpoint", "read", "read_foreign", "writer"]
