"""Rewind as a user meets it: `tensight run` names the operator and line, and the script prints what it always did."""

from __future__ import annotations

import json

from tests.replay import programs
from tests.replay.test_rewind import bare, run


def test_a_run_names_the_operator_that_went_bad_and_the_line(tmp_path):
    plain = bare(tmp_path, programs.WORKERS)
    command = ["-m", "tensight", "run", "--no-page", "--report", "report.json", "train.py"]
    watched = run(command, tmp_path, {})
    assert watched.returncode == 0, watched.stderr
    losses = [line for line in watched.stdout.splitlines() if line.split()[0].isdigit()]
    assert losses == plain.stdout.splitlines()
    report = json.loads((tmp_path / "report.json").read_text())
    first = report["findings"][0]
    assert (first["fault"], first["replay"], first["where"]["op"]) == ("log_of_zero", "exact", "aten.log")
    assert first["where"]["code"].startswith("loss = -torch.log(")


def test_guard_stops_before_the_update_that_would_spoil_the_weights(tmp_path):
    (tmp_path / "train.py").write_text(programs.PLAIN)
    command = ["-m", "tensight", "run", "--no-page", "--guard", "--report", "report.json", "train.py"]
    watched = run(command, tmp_path, {})
    assert watched.returncode == 0, watched.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["run"]["ended"], report["run"]["steps"]) == ("stopped", 7)
    assert report["findings"][0]["fault"] == "sqrt_zero_gradient"
    assert "\n6 " not in watched.stdout
