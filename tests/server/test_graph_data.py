"""What the server answers about graphs, stacks and values, and how it refuses what is not there."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from tensight.records import Network, Observation, RunEnd, RunInfo, Stats, StepRecord, TensorInfo
from tensight.records.graph import Frame
from tensight.records.graph_builder import GraphBuilder
from tensight.store import Writer
from tests.server.serving import client

VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("graphs")
    for rank in range(2):
        writer = Writer(folder / "run", RunInfo("run", ("train.py",), 1.0, rank=rank, ranks=2))
        writer.network(Network("net", "Net"))
        builder = GraphBuilder("step 2", 2)
        scope = builder.scope("net", "fc", "Linear")
        weight = builder.add("weight", scope, kind="parameter")
        stack = builder.stack([Frame("/etc/passwd", 1, "forward", "y = fc(x)")])
        product = builder.add("matmul", scope, inputs=(weight,), stack=stack)
        builder.add("matmul_backward", scope, phase="backward", inputs=(product,), forward=product)
        writer.graph(builder.build())
        writer.tensor(TensorInfo(0, "output", "fc", "output.0", "net", shape=(2, 3, 4), dtype="float32"))
        for step in range(3):
            seen = (Observation(0, 0, Stats(24, min=0.0, max=23.0, abs_mean=float(step))),)
            writer.step(StepRecord(step, 1.0, 0.1, loss=1.0, observations=seen))
            if step:
                writer.tensors(step, {0: VALUES + 10 * rank + step})
        writer.end(RunEnd("finished", 2.0, 0, 3))
        writer.close()
    writer = Writer(folder / "port", RunInfo("port", ("port.py",), 1.0, framework="mindspore"))
    writer.network(Network("model", "Net"))
    writer.tensor(TensorInfo(7, "output", "fc", "output.0", "model", shape=(2, 3, 4), dtype="float32"))
    writer.step(StepRecord(2, 1.0, 0.1, observations=(Observation(7, 0, Stats(24)),)))
    writer.tensors(2, {7: VALUES + 2 + 0.5 * (VALUES == 23)})
    writer.close()
    with client(folder) as made:
        yield made


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("graph/group?key=b99", 404, "There is no 'b99'"),
        ("graph/group?key=n0&view=backward", 404, "There is no 'n0'"),
        ("graph/group?view=sideways", 404, "choose one of forward, backward, update"),
        ("graph/group?graph=other", 404, "There is no graph 'other'"),
        ("graph/group?rank=7", 404, "There is no rank 7"),
        ("graph/group?statistic=secret", 400, "statistic must be one of"),
        ("graph/node?number=99", 404, "There is no node 99"),
        ("graph/node?number=x", 400, "number must be a whole number"),
        ("graph/line?frame=-5", 404, "There is no line -5"),
        ("graph/near?key=n77", 404, "There is no 'n77'"),
        ("tensor?tensor=9", 404, "There is no such tensor"),
        ("tensor/values?tensor=0&step=0", 404, "run again with --steps 0"),
        ("tensor/values?tensor=0&step=1&slice=[5]", 400, "there is no 5"),
        ("tensor/values?tensor=0&step=1&other_step=2&atol=-1", 400, "atol must be a number"),
        ("tensor/values?tensor=0&step=1&other_run=nope", 404, "There is no run 'nope'"),
        ("tensor/image?tensor=0&step=1", 400, "There is no image 0"),
    ],
)
def test_what_is_not_there_is_refused_in_one_sentence(http: httpx.Client, path: str, code: int, words: str) -> None:
    answer = http.get(f"/api/runs/run/{path}")
    assert answer.status_code == code
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_a_file_that_a_recording_names_is_never_read(http: httpx.Client) -> None:
    (line,) = http.get("/api/runs/run/graph/lines").json()["lines"]
    assert line["file"] == "/etc/passwd"
    shown = http.get("/api/runs/run/graph/line", params={"frame": line["frame"]}).json()
    assert shown["lines"] == ["y = fc(x)"]


def test_a_statistic_and_a_backward_link_come_with_the_boxes(http: httpx.Client) -> None:
    group = http.get("/api/runs/run/graph/group?key=b1&step=2&statistic=abs_mean").json()
    assert [(box["label"], box["value"]) for box in group["boxes"]] == [("fc", 2.0)]
    node = http.get("/api/runs/run/graph/node?number=1").json()
    assert [box["label"] for box in node["backward"]] == ["matmul_backward"]
    assert http.get("/api/runs/run/graph/node?number=2").json()["forward"]["label"] == "matmul"


def test_values_are_compared_with_another_step_and_another_rank(http: httpx.Client) -> None:
    found = http.get("/api/runs/run/tensor/values?tensor=0&step=2&slice=[0]&other_step=1").json()
    assert found["difference"]["max_abs"] == 1.0
    assert found["other"] == "step 1"
    found = http.get("/api/runs/run/tensor/values?tensor=0&step=2&rank=0&other_rank=1").json()
    assert found["difference"]["max_abs"] == 10.0
    assert found["other"] == "step 2, rank 1"
    assert found["difference"]["different"] == 24


def test_values_are_compared_with_those_of_another_run_and_framework(http: httpx.Client) -> None:
    found = http.get("/api/runs/run/tensor/values?tensor=0&step=2&other_run=port").json()
    assert found["other"] == "step 2, run port"
    assert (found["difference"]["max_abs"], found["difference"]["different"]) == (0.5, 1)


def test_a_stranger_gets_no_values(http: httpx.Client) -> None:
    with httpx.Client(base_url=http.base_url, trust_env=False) as stranger:
        for path in ("graphs", "graph/group", "tensor/download?tensor=0&step=1", "tensor/heat?tensor=0&step=1"):
            assert stranger.get(f"/api/runs/run/{path}").status_code in (401, 403)
