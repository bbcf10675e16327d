"""The user's script runs as `python` would run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tensight.errors import UsageError
from tensight.session.program import Program


def both(
    tmp_path: Path, text: str, *arguments: str, module: bool = False
) -> tuple[subprocess.CompletedProcess[str], ...]:
    """A script under plain Python and under Tensight."""
    (tmp_path / "script.py").write_text(text)
    target = ["-m", "script"] if module else ["script.py"]
    commands = (
        [sys.executable, *target, *arguments],
        [sys.executable, "-m", "tensight", "run", "--no-page", "--run-dir", "out", *target, *arguments],
    )
    return tuple(subprocess.run(c, cwd=tmp_path, capture_output=True, text=True, timeout=120) for c in commands)


SHOWS = """
import sys, os
print(sys.argv, __name__, __file__ if "script.py" == __file__ else "path", sys.path[0] == os.getcwd())
import __main__; print(hasattr(__main__, "SHOWN")); SHOWN = 1
import __main__; print(__main__.SHOWN)
"""


def test_arguments_name_and_path_are_as_in_python(tmp_path: Path) -> None:
    plain, ours = both(tmp_path, SHOWS, "--lr", "0.1")
    assert ours.stdout == plain.stdout
    assert ours.returncode == plain.returncode == 0


def test_a_module_runs_as_with_dash_m(tmp_path: Path) -> None:
    plain, ours = both(tmp_path, "import sys\nprint(__name__, sys.argv[1:], __package__)", "a", module=True)
    assert ours.stdout == plain.stdout


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("sys.exit()", 0),
        ("sys.exit(7)", 7),
        ("sys.exit(260)", 4),
        ("sys.exit(-1)", 255),
        ("sys.exit(True)", 1),
        ("sys.exit('no')", 1),
        ("1 / 0", 1),
        ("raise SystemExit(3)", 3),
    ],
)
def test_the_exit_code_is_the_scripts_own(tmp_path: Path, end: str, code: int) -> None:
    plain, ours = both(tmp_path, f"import sys\nprint('a')\n{end}\n")
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout) == (code, "a\n")


def test_a_traceback_stays_as_it_was(tmp_path: Path) -> None:
    plain, ours = both(tmp_path, "def f():\n    return 1 / 0\n\n\nf()\n")
    wanted = plain.stderr.replace(str(tmp_path) + "/", "")
    assert wanted in ours.stderr.replace(str(tmp_path) + "/", "")


MODEL = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(3, 2)))
model(torch.zeros(1, 2))
"""


def test_a_traceback_through_a_model_stays_as_it_was(tmp_path: Path) -> None:
    plain, ours = both(tmp_path, MODEL)
    assert plain.stderr in ours.stderr


def test_a_missing_script_is_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.py: there is no such script"):
        Program("nowhere.py").check()
