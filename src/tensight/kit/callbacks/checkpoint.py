"""`ModelCheckpoint`: when to save, and what to keep."""

from __future__ import annotations

import atexit
import queue
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tensight.errors import CheckpointError, UsageError
from tensight.kit.callbacks.callback import Callback, Params, RunContext
from tensight.kit.callbacks.values import step_in_epoch
from tensight.kit.checkpoints import FORMATS, Write, remove_unfinished, write_whole, writer
from tensight.kit.logs import get_logger
from tensight.session.settings import rank

LONGEST = 600.0  # seconds that the end of a training, or its next checkpoint, waits for one that is being written


@dataclass(frozen=True)
class CheckpointConfig:
    """When a checkpoint is saved and which are kept.

    `save_checkpoint_steps` and `save_checkpoint_seconds`: after so many steps, or so many seconds, whichever comes
    first; 0 leaves one out (neither given: every step). `keep_checkpoint_max`: the newest so many (0: all).
    `keep_checkpoint_per_n_minutes`: beside those, one for every n minutes. `async_save`: write in another thread from a
    copy. `format`: 'safetensors', or the framework's own ('torch', 'mindspore'), which holds the optimizer too.

    >>> CheckpointConfig(save_checkpoint_steps=100, keep_checkpoint_max=3).keep_checkpoint_max
    3
    """

    save_checkpoint_steps: int = 0
    save_checkpoint_seconds: float = 0
    keep_checkpoint_max: int = 5
    keep_checkpoint_per_n_minutes: float = 0
    async_save: bool = False
    format: str = "safetensors"

    def __post_init__(self) -> None:
        for name in (
            "save_checkpoint_steps",
            "save_checkpoint_seconds",
            "keep_checkpoint_max",
            "keep_checkpoint_per_n_minutes",
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise UsageError(f"CheckpointConfig: {name} is {value!r}; give a number from 0 on")
        if self.format not in FORMATS:
            raise UsageError(f"CheckpointConfig: format {self.format!r} is none of {', '.join(FORMATS)}")


class ModelCheckpoint(Callback):
    """Saves the network in `directory` as `<prefix>-<epoch>_<step>` while it is trained, and at the end.

    A prefix that is taken there gets a number, so that an earlier training's files stay. `latest` is the newest file.
    Of several ranks the first writes.
    """

    def __init__(
        self, prefix: str = "CKP", directory: str | Path | None = None, config: CheckpointConfig | None = None
    ) -> None:
        if not prefix or "/" in prefix or prefix.startswith("."):
            raise UsageError(f"ModelCheckpoint: {prefix!r} is no prefix of a file name")
        self._prefix = prefix
        self.directory = Path(directory or ".")
        self._config = config or CheckpointConfig()
        self._background = Background() if self._config.async_save else None
        self._kept: list[Path] = []
        self._milestone = 0.0
        self._saved_step = 0
        self._saved_time = 0.0

    @property
    def latest(self) -> Path | None:
        """The newest checkpoint that is whole."""
        if self._background is not None:
            self._background.wait()
        return self._kept[-1] if self._kept else None

    def on_train_begin(self, run_context: RunContext) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        remove_unfinished(self.directory)
        self._prefix = _free(self.directory, self._prefix)
        self._kept, self._saved_step = [], int(run_context.original_args().cur_step_num)
        self._saved_time = self._milestone = time.monotonic()

    def on_train_step_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        if self._due(int(params.cur_step_num)):
            self._save(params)

    def on_train_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        if params.cur_step_num > self._saved_step:
            self._save(params)

    def release(self) -> None:
        if self._background is not None:
            self._background.wait()

    def _due(self, step: int) -> bool:
        config = self._config
        every = config.save_checkpoint_steps or (0 if config.save_checkpoint_seconds else 1)
        if every and step - self._saved_step >= every:
            return True
        return bool(
            config.save_checkpoint_seconds and time.monotonic() - self._saved_time >= config.save_checkpoint_seconds
        )

    def _save(self, params: Params) -> None:
        self._saved_step, self._saved_time = int(params.cur_step_num), time.monotonic()
        name = f"{self._prefix}-{params.cur_epoch_num}_{step_in_epoch(params)}{FORMATS[self._config.format]}"
        path = self.directory / name
        info = {"epoch_num": params.cur_epoch_num, "step_num": params.cur_step_num}
        write = writer(params.train_network, params.get("optimizer"), self._config.format, info)
        params.latest_ckpt_file = str(path)
        if rank():
            return  # every rank has taken part in gathering the weights, which may need all; one of them writes
        if self._background is not None:
            self._background.put(lambda: self._write(path, write))
        else:
            self._write(path, write)

    def _write(self, path: Path, write: Write) -> None:
        write_whole(path, write)
        get_logger("kit.checkpoint").info("saved %s", path)
        self._kept.append(path)
        self._drop()

    def _drop(self) -> None:
        """Delete what is too many. The newest is never among it, so there is always one that can be read."""
        most = int(self._config.keep_checkpoint_max)
        per = self._config.keep_checkpoint_per_n_minutes * 60
        while most and len(self._kept) > most:
            oldest = self._kept.pop(0)
            if per and time.monotonic() - self._milestone >= per:
                self._milestone = time.monotonic()
                continue
            oldest.unlink(missing_ok=True)


class Background:
    """One thread that does things in order; an error comes out at the next call.

    A disk that no longer answers must not keep the program: what is not written after `LONGEST` is given up with an
    error, and the thread does not hold Python at its end.
    """

    def __init__(self) -> None:
        self._queue: queue.Queue[object] = queue.Queue(maxsize=1)
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def put(self, task: object) -> None:
        self._raise()
        if self._thread is None or not self._thread.is_alive():
            arguments = (self._queue,)
            self._thread = threading.Thread(target=self._work, args=arguments, name="tensight-checkpoint", daemon=True)
            self._thread.start()
            atexit.register(self.wait)  # a program that ends without a word has its last checkpoint all the same
        try:
            self._queue.put(task, timeout=LONGEST)
        except queue.Full:
            self._give_up()

    def wait(self) -> None:
        """Until everything is done; the thread ends."""
        thread, self._thread = self._thread, None
        atexit.unregister(self.wait)
        if thread is not None and thread.is_alive():
            give_up = time.monotonic() + LONGEST
            try:
                self._queue.put(None, timeout=LONGEST)
            except queue.Full:
                self._give_up()
            thread.join(max(0.0, give_up - time.monotonic()))
            if thread.is_alive():
                self._give_up()
        self._raise()

    def _give_up(self) -> NoReturn:
        self._thread, self._queue = None, queue.Queue(maxsize=1)  # the thread keeps the old one, should it ever go on
        raise CheckpointError(
            f"a checkpoint was not written within {LONGEST:.0f} s: the disk does not answer; the one before is whole"
        )

    def _work(self, tasks: queue.Queue[object]) -> None:
        while True:
            try:
                task = tasks.get(timeout=0.2)
            except queue.Empty:
                if not threading.main_thread().is_alive():
                    return  # the program is over and nobody said so
                continue
            if task is None:
                return
            try:
                task()  # type: ignore[operator]
            except Exception as error:
                self._error = error

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error


def latest_checkpoint(directory: str | Path, prefix: str = "CKP") -> Path | None:
    """The newest checkpoint of a training in a folder, by epoch and step; None when there is none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("CKP-1_100.safetensors", "CKP-10_100.safetensors", "CKP-9_100.safetensors"):
    ...         (Path(folder) / name).touch()
    ...     latest_checkpoint(folder).name
    'CKP-10_100.safetensors'
    """
    found = []
    for path in Path(directory).iterdir():
        match = re.fullmatch(rf"{re.escape(prefix)}(?:_(\d+))?-(\d+)_(\d+)\.\w+", path.name)
        if match:
            found.append((int(match[1] or 0), int(match[2]), int(match[3]), path))
    return max(found)[3] if found else None


def _free(directory: Path, prefix: str) -> str:
    names = [path.name for path in directory.iterdir()]
    candidate, number = prefix, 0
    while any(re.match(rf"{re.escape(candidate)}-\d+_\d+\.", name) for name in names):
        number += 1
        candidate = f"{prefix}_{number}"
    return candidate


__all__ = ["CheckpointConfig", "ModelCheckpoint", "latest_checkpoint"]
