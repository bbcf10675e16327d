"""What pytest must not collect, and what no test may leave behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# The same examples in every run, so that a failure can be looked at; `make test-full` tries new ones each time.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
if not os.environ.get("TENSIGHT_FULL"):
    settings.load_profile("repeatable")

# scripts that run when they are imported
collect_ignore_glob = [
    "src/tensight/cli/demos/*",
    "src/tensight/session/site/*",
    "src/tensight/tuning/site/*",
    "tests/*/programs/*",
    "tests/*/recorded/*",
]


@pytest.fixture(autouse=True)
def _no_session_is_left() -> Iterator[None]:
    """A session that a test leaves open would be found by the next one in this process."""
    yield
    holder = sys.modules.get("tensight.session.current")
    if holder is not None and holder.current() is not None:
        left, holder._sessions[:] = list(holder._sessions), []
        pytest.fail(f"{left} was left open")


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """The next file that this process opens has a number above those that `select` knows."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("this system allows fewer open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    held = [os.open(os.devnull, os.O_RDONLY)]
    while held[-1] < 1100:
        held.append(os.dup(held[0]))
    yield
    for one in held:
        os.close(one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
