"""A recorded reference: one batch through one model, with everything needed to feed it to another.

The folder holds `reference.json` (the calls of modules in order, with their settings and noise floors) and
safetensors files: `tensors` (inputs and outputs of every call), `weights`, `gradients`, `random`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import safetensors.numpy

from tensight.compare.values import stored
from tensight.errors import UNDECODABLE, FormatError, UsageError
from tensight.files import replacing
from tensight.records import Module

Array = np.ndarray[Any, Any]
FORMAT = 1
FILE = "reference.json"
_FILES = ("tensors", "weights", "gradients", "random", "judge")


class Call(msgspec.Struct, frozen=True):
    """One call of a module. Arguments are trees with `{"tensor": key}` at their leaves."""

    path: str
    call: int
    arguments: Any
    keywords: Any
    outputs: tuple[str, ...]  # keys of the tensors it returned
    floor: float = 0.0  # how far rounding drives its outputs, inside the whole model
    local: float = 0.0  # and when it is called alone on these inputs
    whole: bool = True  # whether all its arguments are recorded


class Notes(msgspec.Struct, frozen=True):
    """What is said of a reference beside its tensors."""

    format: int
    framework: str
    version: str
    model: str
    training: bool
    modules: tuple[Module, ...]
    calls: tuple[Call, ...]
    dtypes: dict[str, str]  # of tensors and weights whose dtype NumPy has not
    loss: float | None = None
    floors: str = ""  # how the floors were measured


class Recorded:
    """A reference on disk, read when asked for."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        path = self.folder / FILE
        try:
            self.notes = msgspec.json.decode(path.read_bytes(), type=Notes)
        except OSError as error:
            raise UsageError(f"{self.folder} holds no reference ({path.name} cannot be read): record one") from error
        except UNDECODABLE as error:
            raise FormatError(f"{path} is damaged: {error}") from error
        if self.notes.format != FORMAT:
            raise FormatError(f"{path} has format {self.notes.format}, and this version of Tensight reads {FORMAT}")

    @cached_property
    def _tensors(self) -> Mapping[str, Any]:
        return stored(self.folder / "tensors.safetensors")

    def tensor(self, key: str) -> Array:
        """One tensor of a call."""
        try:
            found: Array = self._tensors[key].array()
        except KeyError:
            raise FormatError(f"{self.folder} lacks the tensor {key[:40]}: it is damaged") from None
        return found

    def dtype(self, key: str) -> str:
        """The dtype a tensor had in its framework."""
        return self.notes.dtypes.get(key) or self.tensor(key).dtype.name

    def named(self, file: str) -> dict[str, Array]:
        """The tensors of one of the other files by name, in the order of the model's modules."""
        places = {module.path: place for place, module in enumerate(self.notes.modules)}
        found = {name: one.array() for name, one in stored(self.folder / f"{file}.safetensors").items()}
        return dict(sorted(found.items(), key=lambda pair: places.get(pair[0].rpartition(".")[0], 0)))

    def tree(self, value: Any, made: Any) -> Any:
        """Arguments as they were; `made(array, dtype)` turns recorded tensors into a framework's."""
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            return made(self.tensor(value["tensor"]), self.dtype(value["tensor"]))
        if "tuple" in value:
            return tuple(self.tree(one, made) for one in value["tuple"])
        if "list" in value:
            return [self.tree(one, made) for one in value["list"]]
        if "dict" in value:
            return {name: self.tree(one, made) for name, one in value["dict"].items()}
        return value.get("value")

    @property
    def root(self) -> Call:
        """The call of the model itself."""
        return next(call for call in reversed(self.notes.calls) if not call.path)


def write(folder: Path, notes: Notes, files: Mapping[str, Mapping[str, Array]]) -> None:
    """Write a reference; the notes come last, so that a folder without them is not whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        arrays = {key: np.require(array, requirements="C") for key, array in files.get(name, {}).items()}
        if arrays:
            safetensors.numpy.save_file(arrays, folder / f"{name}.safetensors", metadata={"format": "tensight"})
        else:
            (folder / f"{name}.safetensors").unlink(missing_ok=True)
    with replacing(folder / FILE) as new:
        new.write_bytes(msgspec.json.format(msgspec.json.encode(notes), indent=1))


def is_reference(path: str | Path) -> bool:
    """Whether a folder holds a reference."""
    return (Path(path) / FILE).is_file()
