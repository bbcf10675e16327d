"""What is compiled after a session is compiled whole, whatever was imported while functions were replaced."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import torch
import tensight

model = torch.nn.Linear(4, 4)
with tensight.watch(model, run_dir=sys.argv[1], quiet=True):
    import torch._dynamo  # as the first convolution of a model does
    model(torch.ones(2, 4)).sum().backward()
compiled = torch.compile(lambda x: torch.tanh(torch.relu(x)) + 1, backend="eager", fullgraph=True)
print(compiled(torch.zeros(3)).sum().item())
with tensight.watch(model, run_dir=sys.argv[1] + "-2", quiet=True):
    print(compiled(torch.zeros(5)).sum().item())
"""


def test_torchs_own_functions_are_known_to_the_compiler_when_ours_are_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error::UserWarning", "-c", PROGRAM, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["3.0", "5.0"]
