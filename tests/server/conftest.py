from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tensight.server import app
from tests.page.recorded import write_run

TOKEN = "right-token"


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a faulty run and a healthy one; tests must not change it."""
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "lenet-1", steps=40, bad_from=30)
    write_run(folder / "healthy-2", steps=8, bad_from=None, watch=())
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of one's own."""
    write_run(tmp_path / "lenet-1", steps=12, bad_from=9)
    return tmp_path


def client(place: Path | None, **options: object) -> TestClient:
    made = TestClient(
        app.create(token=TOKEN, place=place, **options),  # type: ignore[arg-type]
        base_url="http://127.0.0.1:8765",
        follow_redirects=False,
    )
    made.cookies.set("tensight_8765", TOKEN)
    return made


@pytest.fixture
def page(recorded: Path) -> Iterator[TestClient]:
    """A page that has the token."""
    with client(recorded) as made:
        yield made


@pytest.fixture
def own(folder: Path) -> Iterator[TestClient]:
    """The same on a run that may be changed."""
    with client(folder) as made:
        yield made
