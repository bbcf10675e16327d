"""A script under plain `python`, in a virtual environment that has the hook."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import tensight
from tensight.runs import open_run
from tests.cli import programs

SERVER = "127.0.0.1:9"  # where nobody listens: a training needs no server
IS_INSTALLED = "from tensight.session import plain; print(plain.installed())"


def test_a_plain_script_is_one_run_in_a_virtual_environment(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "env")}))
    # what the hook imports lies where this Python has it
    (site / "before.pth").write_text(f"{Path(tensight.__file__).parents[1]}\n{sysconfig.get_path('purelib')}\n")
    python = str(tmp_path / "env" / "bin" / Path(sys.executable).name)
    bare = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TENSIGHT_SERVER")}

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *words], cwd=tmp_path, env=bare | environment, capture_output=True, text=True, timeout=120
        )

    (tmp_path / "train.py").write_text(programs.HEALTHY)
    assert run("-c", IS_INSTALLED).stdout == "False\n"
    assert str(site) in run("-m", "tensight", "serve", "--install-hook").stdout
    assert run("-c", IS_INSTALLED).stdout == "True\n"
    ran = run("train.py", TENSIGHT_SERVER=SERVER)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("tensight: first step") == 1  # Python reads such a hook twice
    assert [one.name for one in (tmp_path / "runs").iterdir()] == ["train-1"]
    recorded = open_run(tmp_path / "runs" / "train-1")
    assert recorded.step_count == 30
    assert recorded.findings == []

    run("-m", "tensight", "serve", "--remove-hook")
    assert run("train.py", TENSIGHT_SERVER=SERVER).stderr == ""
