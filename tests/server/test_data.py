"""What a page is told about recorded runs."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tensight.records import Module, Network
from tensight.runs.muting import muted_beside
from tensight.server import recording
from tensight.store import Writer
from tests.page.recorded import write_run
from tests.server.serving import client, news, serving


def test_the_list_has_every_run_with_what_matters_first(page: httpx.Client) -> None:
    rows = {row["id"]: row for row in page.get("/api/runs").json()}
    assert set(rows) == {"lenet-1", "healthy-2"}
    assert rows["lenet-1"]["findings"] == 1
    assert rows["lenet-1"]["loss"] == "nan"
    assert rows["lenet-1"]["ended"] == "finished"
    assert rows["healthy-2"]["findings"] == 0


def test_steps_that_were_only_counted_are_listed_too(folder: Path) -> None:
    run = folder / "short-3"
    write_run(run, steps=4, bad_from=None, made=9)
    with client(folder) as page:
        rows = {row["id"]: row for row in page.get("/api/runs").json()}
        assert rows["short-3"]["steps"] == 9


def test_a_run_that_comes_into_the_folder_is_listed(folder: Path) -> None:
    with client(folder) as page:
        assert len(page.get("/api/runs").json()) == 1
        write_run(folder / "later-2", steps=2, bad_from=None)
        assert len(page.get("/api/runs").json()) == 2


def test_a_broken_run_says_why_and_hides_no_other(folder: Path) -> None:
    part = folder / "broken" / "rank-0"
    part.mkdir(parents=True)
    (part / "000000.log").write_bytes(b"this is no run")
    with client(folder) as page:
        rows = {row["id"]: row for row in page.get("/api/runs").json()}
        assert rows["broken"]["error"]
        assert not rows["lenet-1"]["error"]
        answer = page.get("/api/runs/broken")
        assert answer.status_code == 422
        assert answer.json()["error"]


def test_a_single_run_is_shown_alone(recorded: Path) -> None:
    with client(recorded / "lenet-1") as page:
        assert [row["id"] for row in page.get("/api/runs").json()] == ["lenet-1"]


def test_an_unknown_run_is_not_found(page: httpx.Client) -> None:
    for name in ("nothing", "..", "%2e%2e%2flenet-1", "x" * 5000):
        answer = page.get(f"/api/runs/{name}")
        assert answer.status_code in (404, 405), name


def test_a_summary_has_the_finding_whole(page: httpx.Client) -> None:
    summary = page.get("/api/runs/lenet-1").json()
    (shown,) = summary["findings"]
    finding = shown["finding"]
    assert shown["key"] == "sqrt_zero_gradient@head.scale"
    assert finding["since_step"] == 30
    assert finding["where"]["code"] == "dist = torch.sqrt(d2.sum(1))"
    assert len(finding["fix"]) == 2
    assert summary["networks"][0]["parameters"] == 150 + 2400 + 84 * 256
    assert summary["coverage"]["gaps"][0]["what"]
    assert summary["control"] is None


def test_steps_come_only_once(folder: Path) -> None:
    with client(folder) as page:
        first = page.get("/api/runs/lenet-1/steps").json()
        assert first["ranks"][0]["step"] == list(range(12))
        assert first["ranks"][0]["scalars"]["gradient_norm"][9] == "nan"
        nothing = page.get(f"/api/runs/lenet-1/steps?since={first['sequence']}").json()
        assert nothing["ranks"] == []


def test_a_page_that_asks_from_where_it_was_misses_nothing(tmp_path: Path) -> None:
    from tests.page.recorded import record, tensors

    infos = tensors()
    got: list[int] = []
    since = 0

    def ask(page: httpx.Client) -> None:
        nonlocal since
        news = page.get(f"/api/runs/growing/steps?since={since}").json()
        got.extend(step for rank in news["ranks"] for step in rank["step"])
        since = news["sequence"]

    def grow(writer: Writer) -> None:
        with client(tmp_path) as page:
            for step in range(9):
                writer.step(record(step, infos, bad_from=None, time=0.0))
                if step % 4 == 1:
                    ask(page)
            ask(page)

    write_run(tmp_path / "growing", steps=0, extra=grow, finished=False)
    assert got == list(range(9))


def test_hits_are_filtered_counted_and_paged(page: httpx.Client) -> None:
    def ask(**query: object) -> dict[str, object]:
        text = "&".join(f"{name}={value}" for name, value in query.items())
        got: dict[str, object] = page.get(f"/api/runs/lenet-1/hits?{text}").json()
        return got

    everything = ask(limit=500)
    total = everything["total"]
    assert isinstance(total, int)
    assert total > 50
    paged: list[object] = []
    while len(paged) < total:
        more = ask(offset=len(paged), limit=37)["hits"]
        assert isinstance(more, list)
        paged.extend(more)
    assert paged == everything["hits"]
    orders = [(hit["step"], hit["order"]) for hit in paged]  # type: ignore[index]
    assert orders == sorted(orders)
    nan = ask(condition="TO", kind="gradient", step=30)
    assert [hit["node"] for hit in nan["hits"]] == ["conv.0", "conv.2", "head.fc"]  # type: ignore[attr-defined]
    own = ask(own=1, limit=500)
    assert {hit["condition"] for hit in own["hits"]} == {"TL"}  # type: ignore[attr-defined]
    assert all(hit["threshold"] == {"max_gt": 3.5} and hit["actual"]["max_gt"] > 3.5 for hit in own["hits"])  # type: ignore[attr-defined]
    assert (
        ask(name="HEAD.fc", condition="TL")["total"]
        == own["total"] - ask(name="head.scale", condition="TL", own=1)["total"]
    )  # type: ignore[operator]
    assert ask(errors=1)["total"] > total  # type: ignore[operator]


def test_hits_beyond_what_is_held_are_seen_step_by_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_HITS", 3)
    with client(folder) as page:
        listed = page.get("/api/runs/lenet-1/hits").json()
        assert listed["total"] == 3
        assert "Only the first 3 hits" in listed["note"]
        assert page.get("/api/runs/lenet-1/hits?step=11").json()["total"] > 3
        assert page.get("/api/runs/lenet-1").json()["row"]["hits"] > 3


def test_the_tree_has_every_module_with_its_hits(page: httpx.Client) -> None:
    rows = {row["path"]: row for row in page.get("/api/runs/lenet-1/nodes").json()}
    assert list(rows)[:3] == ["", "conv", "conv.0"]
    assert rows["conv.1"]["type"] == "ReLU"
    assert rows["head.fc"]["kinds"] == ["output", "weight", "gradient"]
    assert rows["head.fc"]["hits"] > 0
    assert {row["path"]: row["hits"] for row in page.get("/api/runs/lenet-1/nodes?step=0").json()}["head.fc"] == 0


def test_a_node_shows_its_tensors_at_the_step_asked_for(page: httpx.Client) -> None:
    def gradient(step: int) -> dict[str, object]:
        tensors = page.get(f"/api/runs/lenet-1/node?node=head.fc&step={step}").json()["tensors"]
        (row,) = [row for row in tensors if row["info"]["kind"] == "gradient"]
        found: dict[str, object] = row
        return found

    assert gradient(29)["seen"]["stats"].get("nan", 0) == 0  # type: ignore[index]
    assert gradient(30)["seen"]["stats"]["nan"] == 84 * 256  # type: ignore[index]
    assert gradient(30)["hits"] == ["TO"]


def test_a_node_that_is_not_there_is_not_found(page: httpx.Client) -> None:
    assert page.get("/api/runs/lenet-1/node?node=nothing").status_code == 404


@pytest.mark.parametrize("query", ["", "tensor=x", "tensor=0&statistic=__class__", "tensor=0&statistic="])
def test_a_series_needs_a_tensor_and_a_known_statistic(page: httpx.Client, query: str) -> None:
    assert page.get(f"/api/runs/lenet-1/series?{query}").status_code == 400


def test_a_series_is_a_curve_of_one_statistic(page: httpx.Client) -> None:
    series = page.get("/api/runs/lenet-1/series?tensor=1&statistic=zero").json()
    assert series["step"] == list(range(40))
    assert len(series["value"]) == 40
    assert page.get("/api/runs/lenet-1/series?tensor=999").status_code == 404


def test_several_ranks_are_one_run(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_run(tmp_path / "both", steps=5, bad_from=None, rank=rank, ranks=2)
    with client(tmp_path) as page:
        assert page.get("/api/runs/both").json()["row"]["ranks"] == 2
        ranks = page.get("/api/runs/both/steps").json()["ranks"]
        assert [one["rank"] for one in ranks] == [0, 1]
        assert ranks[0]["loss"] != ranks[1]["loss"]
        assert page.get("/api/runs/both/node?node=head.fc&rank=7").status_code == 404


def test_hits_of_one_rank_are_chosen(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_run(tmp_path / "both", steps=12, bad_from=9, rank=rank, ranks=2)
    with client(tmp_path) as page:
        everything = page.get("/api/runs/both/hits").json()["hits"]
        chosen = page.get("/api/runs/both/hits?rank=1").json()["hits"]
        assert {hit.get("rank", 0) for hit in everything} == {0, 1}
        assert {hit.get("rank", 0) for hit in chosen} == {1}


def test_a_muted_finding_stays_muted_and_the_run_knows(own: httpx.Client, folder: Path) -> None:
    key = "sqrt_zero_gradient@head.scale"
    assert own.post("/api/runs/lenet-1/mute", json={"do": "mute", "key": key, "muted": True}).status_code == 200
    summary = own.get("/api/runs/lenet-1").json()
    assert summary["findings"][0]["finding"]["muted"] is True
    assert summary["row"]["findings"] == 0
    assert muted_beside(folder / "lenet-1") == {key}
    own.post("/api/runs/lenet-1/mute", json={"do": "mute", "key": key, "muted": False})
    assert muted_beside(folder / "lenet-1") == set()


def test_every_condition_offers_a_form(page: httpx.Client) -> None:
    forms = {form["code"]: form for form in page.get("/api/conditions").json()}
    assert {
        "TO",
        "OO",
        "TZ",
        "TR",
        "TL",
        "TS",
        "WI",
        "WO",
        "WL",
        "WS",
        "WNC",
        "WCL",
        "WCS",
        "AR",
        "GV",
        "GL",
        "GE",
        "EXPR",
    } <= set(forms)
    assert [one["name"] for one in forms["TL"]["settings"]] == ["abs_mean_gt", "max_gt", "min_gt", "mean_gt"]
    assert all(form["finds"] and form["title"] for form in forms.values())


def test_watchpoints_tried_on_a_finished_run_change_only_what_a_recheck_says(own: httpx.Client) -> None:
    base = "/api/runs/lenet-1/watchpoints"
    assert own.delete(base).json() == []
    assert own.post("/api/runs/lenet-1/recheck?step=3").json()["total"] == 0
    made = own.post(base, json={"id": 0, "condition": "TL", "parameters": {"max_gt": 1.0}, "on": "output:head.fc"})
    assert made.status_code == 201
    again = own.post("/api/runs/lenet-1/recheck?step=3").json()
    assert [(hit["node"], hit["condition"]) for hit in again["hits"]] == [("head.fc", "TL")]
    assert again["recheck"] is True
    point = made.json()
    own.put(f"{base}/{point['id']}", json={**point, "parameters": {"max_gt": 1e9}})
    assert own.post("/api/runs/lenet-1/recheck?step=3").json()["total"] == 0
    assert own.delete(f"{base}/{point['id']}").json() == []
    assert own.delete(f"{base}/{point['id']}").status_code == 404
    names = [one["condition"] for one in own.post(f"{base}/recommended").json()]
    assert "TO" in names
    assert len(own.post(f"{base}/recommended").json()) == len(names)  # asked twice, there once


@pytest.mark.parametrize(
    ("point", "word"),
    [
        ({"condition": "XX"}, "no condition"),
        ({"condition": "TL"}, "at least one of"),
        ({"condition": "TL", "parameters": {"max_gt": "a"}}, "cannot be read"),
        ({"condition": "TL", "parameters": {"nothing_gt": 1}}, "nothing_gt"),
        ({"condition": "TZ", "parameters": {"zero_percentage_ge": 101}}, "zero_percentage_ge"),
        ({"condition": "TO", "on": "nokind:*"}, "nokind"),
        ({"condition": "EXPR", "expression": "__import__('os')"}, ""),
        ({"condition": "TO", "every": "often"}, "cannot be read"),
    ],
)
def test_a_wrong_watchpoint_is_refused_with_the_reason(own: httpx.Client, point: dict[str, object], word: str) -> None:
    answer = own.post("/api/runs/lenet-1/watchpoints", json={"id": 0, **point})
    assert answer.status_code == 400, answer.text
    assert word in answer.json()["error"]


def test_a_selector_says_what_it_selects(page: httpx.Client) -> None:
    def ask(on: str, condition: str) -> int:
        got: int = page.get(f"/api/runs/lenet-1/matching?on={on}&condition={condition}").json()["count"]
        return got

    assert ask("*", "WL") == 3
    assert ask("gradient:head", "TO") == 1
    assert ask("head.fc", "GL") == 1
    assert page.get("/api/runs/lenet-1/matching?on=nokind:*").status_code == 400


def test_commands_to_a_finished_run_are_refused(page: httpx.Client) -> None:
    answer = page.post("/api/runs/lenet-1/control", json={"do": "continue"})
    assert answer.status_code == 409
    assert "No training is connected" in answer.json()["error"]
    assert page.post("/api/runs/lenet-1/control", json={"do": "explode"}).status_code == 400
    assert page.post("/api/runs/lenet-1/control", json={"do": "step", "count": 0}).status_code == 400


def test_a_large_network_is_listed_whole(tmp_path: Path) -> None:
    modules = tuple(Module(f"layers.{i // 100}.{i % 100}", "Linear") for i in range(10_000))
    write_run(tmp_path / "large", steps=1, extra=lambda writer: writer.network(Network("Large", "Large", modules)))
    with client(tmp_path) as page:
        assert sum(row["network"] == "Large" for row in page.get("/api/runs/large/nodes").json()) == 10_000


def test_pages_are_told_what_is_new(folder: Path) -> None:
    with serving(folder) as served, served.live("lenet-1") as wire:
        first = news(wire)
        assert first["run"] == "lenet-1"
        assert first["sequence"] >= 1
        served.http.post("/api/runs/lenet-1/mute", json={"do": "mute", "key": "k", "muted": True})
        assert news(wire)["about"] > first["about"]


def test_an_error_of_ours_is_an_answer_and_no_silence(own: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(recording.Recording, "networks", fail)
    answer = own.get("/api/runs/lenet-1")
    assert answer.status_code == 500
    assert "a mistake" in answer.json()["error"]


def test_answers_are_strict_json(page: httpx.Client) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    for path in ("/api/runs", "/api/runs/lenet-1", "/api/runs/lenet-1/steps", "/api/runs/lenet-1/hits?limit=500"):
        json.loads(page.get(path).text, parse_constant=refuse)
