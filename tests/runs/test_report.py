"""The report and the files of known findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tensight.errors import RunError, UsageError
from tensight.runs import open_run, report
from tensight.runs.muting import load_baseline, mute, write_baseline
from tensight.testing.store_suite import HOSTILE, sample_finding
from tests.runs.sample import STEPS, record_run


def test_the_report_has_every_key_of_the_contract(tmp_path: Path) -> None:
    record_run(tmp_path / "run")
    built = open_run(tmp_path / "run").report()
    assert set(built) == {
        "tensight",
        "schema",
        "run",
        "hits",
        "findings",
        "coverage",
        "replays",
        "lost",
        "crash",
        "history",
        "audit",
    }
    assert built["schema"] == 1
    run = built["run"]
    assert run["dir"] == str(tmp_path / "run")
    assert run["framework"] == "torch"
    assert run["framework_version"] == "2.13.0"
    assert run["command"] == ["train.py", "--lr", "0.1"]
    assert (run["ranks"], run["steps"], run["ended"], run["script_exit"]) == (1, STEPS, "finished", 0)
    assert run["watch_cost"] == 1.03
    hit = built["hits"][0]
    assert hit["watchpoint"] == "overflow"
    assert (hit["step"], hit["rank"], hit["condition"], hit["kind"]) == (6, 0, "TO", "output")
    assert (hit["node"], hit["slot"]) == ("encoder.0", "output.0")
    assert hit["actual"] == {"nan": 12.0, "max": "inf"}
    assert hit["threshold"] == {"max": -0.0}
    assert hit["error"] is None
    assert hit["op"] == "aten.sqrt"
    assert hit["source"] == {"file": "train.py", "line": 31, "code": "x = y"}
    assert [entry["error"] for entry in built["hits"]] == [None, "no_prev", None]
    assert [finding["fault"] for finding in built["findings"]] == ["dead_relu"]  # the other is muted
    finding = built["findings"][0]
    assert set(finding) >= {
        "fault",
        "category",
        "title",
        "confidence",
        "since_step",
        "rank",
        "where",
        "why",
        "evidence",
        "fix",
    }
    assert finding["where"] == {
        "module": "fc",
        "op": "aten.relu",
        "parameter": None,
        "file": "train.py",
        "line": 9,
        "code": HOSTILE,
        "network": "model",
    }
    assert finding["evidence"][1]["value"] == "nan"
    assert built["coverage"]["gaps"] == [{"what": "loss", "reason": "none was called", "remedy": ""}]
    assert built["replays"][0]["facts"] == {"zeros": 3, "x": "inf"}
    assert built["lost"] == ["something"]
    assert built["crash"] is None


def test_the_report_of_a_run_that_goes_on_is_whole_too(tmp_path: Path) -> None:
    record_run(tmp_path / "run", end=False)
    built = open_run(tmp_path / "run").report()
    assert built["run"]["ended"] == "running"
    assert built["run"]["script_exit"] is None
    assert built["run"]["watch_cost"] is None
    assert built["run"]["steps"] == STEPS


def test_the_written_report_is_strict_json(tmp_path: Path) -> None:
    writer = record_run(tmp_path / "run", end=False)
    writer.crash({"title": "bad \udcff text", "value": float("nan")})
    report.write(open_run(tmp_path / "run"), tmp_path / "new" / "report.json")
    text = (tmp_path / "new" / "report.json").read_text(encoding="utf-8")
    read = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert read["crash"] == {"title": "bad \\udcff text", "value": "nan"}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_is_said_in_one_sentence(tmp_path: Path) -> None:
    record_run(tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"the report .* cannot be written"):
        report.write(open_run(tmp_path / "run"), tmp_path / "file" / "report.json")


@pytest.mark.parametrize("name", ["known.json", "known.toml"])
def test_known_findings_are_written_and_left_out(tmp_path: Path, name: str) -> None:
    findings = [sample_finding(), sample_finding(fault='odd "\x7f\\ \n' + HOSTILE)]
    write_baseline(findings, tmp_path / name)
    known = load_baseline(tmp_path / name)
    assert known == {finding.key for finding in findings}
    assert [finding.muted for finding in mute([*findings, sample_finding(fault="new")], known)] == [True, True, False]
    record_run(tmp_path / "run")
    assert report.build(open_run(tmp_path / "run"), muted=known)["findings"] == []


def test_a_report_serves_as_a_list_of_known_findings(tmp_path: Path) -> None:
    record_run(tmp_path / "run")
    report.write(open_run(tmp_path / "run"), tmp_path / "report.json")
    assert load_baseline(tmp_path / "report.json") == {"dead_relu@fc"}


def test_what_was_muted_on_the_page_is_muted_in_the_report(tmp_path: Path) -> None:
    record_run(tmp_path / "run")
    (tmp_path / "run" / "muted.json").write_text('["dead_relu@fc"]')
    run = open_run(tmp_path / "run")
    assert all(finding.muted for finding in run.findings)
    assert run.report()["findings"] == []
    (tmp_path / "run" / "muted.json").write_text("no json")
    assert len(run.report()["findings"]) == 1


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.json", "{", "not well formed"),
        ("a.toml", "= 3", "not well formed"),
        ("a.json", "{}", "has no list 'findings'"),
        ("a.json", "3", "has no list 'findings'"),
        ("a.json", '{"findings": [3]}', "an entry that is no key"),
    ],
)
def test_a_wrong_baseline_is_named_in_one_sentence(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=complaint):
        load_baseline(tmp_path / name)
    with pytest.raises(UsageError, match="cannot be read"):
        load_baseline(tmp_path / "none.json")
