"""Records that show themselves, and graphs that are too large to be kept whole."""

from __future__ import annotations

from tensight.records import Finding, Hit, Where
from tensight.records.graph_builder import GraphBuilder
from tensight.records.shard import Shard

HOSTILE = "<script>alert(1)</script>"


def test_a_finding_shows_what_where_why_and_each_fix_in_a_notebook() -> None:
    where = Where(module="head", op="aten.sqrt", file="train.py", line=31, code="torch.sqrt(d)")
    shown = Finding(
        "x", "y", HOSTILE, 0.9, 153, where, "an infinite slope", fix=("add a constant", "clamp")
    )._repr_html_()
    for text in ("153", "head, aten.sqrt, train.py:31  torch.sqrt(d)", "an infinite slope", "add a constant", "clamp"):
        assert text in shown
    assert "&lt;script&gt;" in shown
    assert HOSTILE not in shown
    assert "train.py" not in Finding("x", "y", "t", 0.9, 1, Where(module="head"), "why")._repr_html_()


def test_a_hit_shows_what_was_measured_beside_what_was_set() -> None:
    hit = Hit(
        3, 1, "big", "TL", "gradient", HOSTILE, "weight", 7, actual={"max_gt": 123.4567891}, threshold={"max_gt": 100.0}
    )
    shown = hit._repr_html_()
    assert "123.457 (set 100.0)" in shown
    assert "&lt;script&gt;" in shown
    assert HOSTILE not in shown


def test_a_shard_of_which_values_are_to_be_summed_is_partial() -> None:
    assert Shard((8,), ("P(sum)",), (2,), ("dp",)).partial
    assert not Shard((8,), ("S(0)",), (2,), ("dp",)).partial


def test_a_graph_that_is_too_large_loses_what_only_passes_on_then_its_end() -> None:
    builder = GraphBuilder("g", 0, most=3, passing={"view"})
    scope = builder.scope("net", "")
    first = builder.add("relu", scope)
    view = builder.add("view", scope, inputs=(first,))
    second = builder.add("add", scope, inputs=(view,))
    back = builder.add("relu_backward", scope, inputs=(second,), forward=first)
    builder.add("sum", scope, inputs=(back,))
    graph = builder.build()
    assert [node.name for node in graph.nodes] == ["relu", "add", "relu_backward"]
    assert graph.nodes[1].inputs == (0,)  # what went through the view comes from its source
    assert graph.nodes[2].forward == 0
    assert graph.left_out == 2


def test_nodes_beyond_what_is_collected_are_counted() -> None:
    builder = GraphBuilder("g", 0, most=1)
    scope = builder.scope("net", "")
    assert [builder.add("relu", scope) for _ in range(5)] == [0, 1, 2, -1, -1]
    assert builder.build().left_out == 4
