"""A real notebook, executed: a live session, and everything that shows itself in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

CELLS = [
    """import torch, tensight
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with tensight.watch(model, optimizer=optimizer, run_dir="runs/notebook-1", watchpoints=["TL(max_gt=0.01) on weight:*"],
                    quiet=True) as session:
    for x in session.steps(torch.randn(20, 16, 4)):
        loss = torch.log(model(x).relu().mean() * 0).mean()
        loss.backward(); optimizer.step(); optimizer.zero_grad()""",
    "session",
    "session.findings",
    "run = tensight.open('runs/notebook-1'); run",
    "run.findings",
    "run.findings[0]",
    "run.hits",
    "run.hits[0]",
    "run.tensor('0', 'weight')",
    "run.nodes('*').weights().stats()",
    "tensight.compare('runs/notebook-1', 'runs/notebook-1')",
]


def shown(cell: Any) -> str:
    for output in cell["outputs"]:
        if output["output_type"] == "execute_result" and "text/html" in output["data"]:
            return str(output["data"]["text/html"])
    return ""


def test_a_live_session_and_all_its_parts_show_themselves(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    NotebookClient(
        notebook,
        timeout=250,
        startup_timeout=250,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    pictures = {cell["source"]: shown(cell) for cell in notebook.cells[1:]}
    assert [source for source, html in pictures.items() if not html] == []
    assert not any("<script" in html for html in pictures.values())
    assert "log" in pictures["run.findings"]
    assert "In[1]:8" in pictures["run.findings"]  # the cell as its reader knows it, not a file of the kernel's
    assert "log" in pictures["session"]
