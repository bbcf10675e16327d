from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.page.recorded import write_run
from tests.server.serving import Served, client, serving


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a faulty run and a healthy one; tests must not change it."""
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "lenet-1", steps=40, bad_from=30)
    write_run(folder / "healthy-2", steps=8, bad_from=None, watch=())
    return folder


@pytest.fixture(scope="module")
def served(recorded: Path) -> Iterator[Served]:
    """A server of that folder."""
    with serving(recorded) as made:
        yield made


@pytest.fixture
def page(served: Served) -> httpx.Client:
    """A page that has the token."""
    return served.http


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of one's own."""
    write_run(tmp_path / "lenet-1", steps=12, bad_from=9)
    return tmp_path


@pytest.fixture
def own(folder: Path) -> Iterator[httpx.Client]:
    """A page on a run that may be changed."""
    with client(folder) as made:
        yield made
