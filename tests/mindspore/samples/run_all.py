"""Runs every sample of this folder in one process; each writes between marks of its own."""

import os
import runpy
import sys
import traceback
from pathlib import Path

import mindspore

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
mindspore.runtime.launch_blocking()  # MindSpore's threads wait busily for each other; tests have few cores


def say(text: str) -> None:
    sys.stdout.flush()
    os.write(1, text.encode())


for path in sorted(HERE.glob("*.py")):
    if path.name in ("run_all.py", "__init__.py", "_shared.py", "conftest.py"):
        continue
    say(f"\n=== {path.stem}\n")
    try:
        runpy.run_path(str(path), run_name="__main__")
    except Exception:
        say(traceback.format_exc())
say("\n=== end\n")
