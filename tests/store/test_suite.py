"""The run directory keeps the contract of every store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensight.records import RunInfo
from tensight.store import Reader, Writer
from tensight.testing.store_suite import StoreSuite


class TestRunDirectory(StoreSuite):
    def writer(self, folder: Path, info: RunInfo, **options: Any) -> Writer:
        return Writer(folder, info, **options)

    def reader(self, folder: Path, rank: int = 0) -> Reader:
        return Reader(folder, rank)
