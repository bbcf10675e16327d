"""Lines of the user's program that advice points to: where replicas and optimizers are made, where switches are set."""

from __future__ import annotations

import linecache
import re
import sys
from typing import Any

import torch
from torch import nn

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, source_of, user_source
from tensight.records import Source
from tensight.records.timing import Calls, Fact

_WIDE = r"(torch\.|np\.)?(float64|double)\b"
_FLOAT64 = re.compile(rf"^[^#]*(set_default_dtype\({_WIDE}|\.double\(\)|dtype={_WIDE}|\.to\({_WIDE})")
_ANOMALY = re.compile(r"^[^#]*(set_detect_anomaly\(|detect_anomaly\()")
_MOST_LINES = 20_000


class Places:
    """Remembers lines while the program runs, and looks through its main file afterwards."""

    def __init__(self) -> None:
        self._made: dict[str, Source] = {}

    def attach(self, patches: Patches) -> None:
        patches.wrap(torch.optim.Optimizer, "__init__", lambda original: self._around(original, "optimizer"))
        if torch.distributed.is_available():
            kind = nn.parallel.DistributedDataParallel
            patches.wrap(kind, "__init__", lambda original: self._around(original, "ddp"))

    def _around(self, original: Any, name: str) -> Any:
        made = self._made

        def __init__(one, *args, **kwargs):
            source = user_source()
            if source is not None:
                made.setdefault(name, source)
            original(one, *args, **kwargs)

        return __init__

    def facts(self) -> dict[str, Fact]:
        found: dict[str, Fact] = {}
        places = dict(self._made)
        anomaly = _first(_ANOMALY)
        if anomaly is not None:
            places["anomaly"] = anomaly
        for name, source in places.items():
            found |= {f"{name}.file": source.file, f"{name}.line": source.line, f"{name}.code": source.code}
        return found

    def asks_for_float64(self) -> tuple[Calls, ...]:
        """The first line of the main file that asks for double precision."""
        source = _first(_FLOAT64)
        return () if source is None else (Calls("asked for", 1, source=source, detail="float64"),)


def _first(pattern: re.Pattern[str]) -> Source | None:
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if not file or not is_user_file(file):
        return None
    for number, text in enumerate(linecache.getlines(file)[:_MOST_LINES], 1):
        if pattern.search(text):
            return source_of(file, number)
    return None
