"""Scripts started by plain `python` connect by the environment where the hook is installed; nothing else costs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tensight.control.messages import Goodbye, Hello, Status
from tensight.session import plain, startup
from tests.control.wire import FakeServer, server

LONG = 240.0
SCRIPT = """
import torch
torch.set_num_threads(1)
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.ones(4, 2)).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
print("done", len(__import__("sys").argv))
"""


def run(folder: Path, environ: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Plain Python, in a folder whose hook is installed as an environment's site-packages would have it."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / plain.HOOK).write_bytes((startup.FOLDER / plain.HOOK).read_bytes())
    begin = f"import site; site.addsitedir({str(site)!r})"
    (folder / "sitecustomize.py").write_text(begin)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TENSIGHT", "MS_DEBUGGER", "ENABLE_MS"))}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", **environ},
        capture_output=True,
        text=True,
        timeout=LONG,
    )


@pytest.fixture
def there() -> object:
    with server() as made:
        yield made


def test_the_variables_of_mindsporess_debugger_bring_a_plain_script_to_the_server(
    there: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    environ = {
        "ENABLE_MS_DEBUGGER": "1",
        "MS_DEBUGGER_HOST": "127.0.0.1",
        "MS_DEBUGGER_PORT": str(there.port),
        "TENSIGHT_TOKEN": "secret",
    }
    ran = run(tmp_path, environ, "train.py", "x")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "done 2\n"
    hello = there.next(Hello)
    assert isinstance(hello, Hello)
    assert hello.run == "train-1"
    assert isinstance(there.next(Status), Status)
    assert there.next(Goodbye) == Goodbye("finished")
    assert (tmp_path / "runs" / "train-1").is_dir()


@pytest.mark.parametrize(
    ("environ", "words"),
    [({}, ["-c", "import math"]), ({"ENABLE_MS_DEBUGGER": "0"}, ["train.py"])],
    ids=["no variable", "switched off"],
)
def test_without_the_variables_nothing_is_imported(environ: dict[str, str], words: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print(any(name.startswith('torch') for name in sys.modules))")
    ran = run(tmp_path, environ, "-X", "importtime", *words)
    assert ran.returncode == 0
    imported = set(re.findall(r"\|\s+(\S+)$", ran.stderr, re.MULTILINE))
    assert not [name for name in imported if name.partition(".")[0] in ("tensight", "msgspec", "numpy", "torch")]
    assert not (tmp_path / "runs").exists()


def test_a_script_that_imports_no_framework_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text("print('fine')")
    ran = run(tmp_path, {"TENSIGHT_SERVER": "127.0.0.1:1"}, "tool.py")
    assert (ran.returncode, ran.stdout) == (0, "fine\n")
    assert not (tmp_path / "runs").exists()


def test_the_hook_is_installed_and_removed_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other" / plain.HOOK
    other.parent.mkdir()
    monkeypatch.setattr(plain, "_places", lambda: [tmp_path / plain.HOOK, other])
    assert not plain.installed()
    assert plain.install() == tmp_path / plain.HOOK
    line = (tmp_path / plain.HOOK).read_text()
    assert line.startswith("import os; ")  # anything else is not run at the start of Python
    assert line.count("\n") == 1
    other.write_text(line)  # beside it: another folder that Python reads
    assert plain.uninstall() == [tmp_path / plain.HOOK, other]
    assert not plain.installed()
    assert plain.uninstall() == []  # and again, which changes nothing
    other.write_text("")
    assert plain.install() == other  # one is enough
    assert not (tmp_path / plain.HOOK).exists()


def test_the_hook_is_silent_where_the_package_is_gone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('fine')")
    (tmp_path / plain.HOOK).write_bytes((startup.FOLDER / plain.HOOK).read_bytes())
    begin = f"import site, sys; site.addsitedir({str(tmp_path)!r}); import train"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", begin],
        cwd=tmp_path,
        env={**os.environ, "TENSIGHT_SERVER": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "fine\n", "")
