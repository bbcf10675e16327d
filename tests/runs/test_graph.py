"""A recorded graph arranged for looking at: groups, folded blocks, ranges, neighbourhoods, search, stacks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tensight.errors import DamagedError, NameNotFound
from tensight.records import Graph, GraphNode, RunInfo
from tensight.records.graph import Frame, Scope
from tensight.records.graph_builder import GraphBuilder
from tensight.runs.graph import GraphIndex, GraphView, label_of, reveal
from tensight.runs.relations import Relations
from tensight.runs.stacks import StackIndex
from tensight.store import Reader, Writer, graphs


def network(blocks: int = 12) -> Graph:
    """Blocks that are alike, each a norm and a matrix product, added to what came in; then a loss, and backward."""
    builder = GraphBuilder("step 2", 2)
    last = builder.add("input", builder.scope("", ""), kind="input", outputs=("float32[4, 8]",))
    products = []
    for number in range(blocks):
        path = f"layers.{number}"
        norm, fc, whole = (builder.scope("net", f"{path}{end}", kind) for end, kind in PARTS)
        stack = builder.stack([Frame("model.py", 12, "forward", "x + self.fc(self.norm(x))"), Frame("train.py", 3)])
        first = builder.add("norm", norm, inputs=(last,), stack=stack)
        weight = builder.add("weight", fc, kind="parameter")
        product = builder.add("matmul", fc, inputs=(first, weight), outputs=("float32[4, 8]",), stack=stack)
        products.append(product)
        last = builder.add("add", whole, inputs=(last, product), stack=stack)
    loss = builder.add("loss", builder.scope("", ""), inputs=(last,), stack=builder.stack([Frame("train.py", 4)]))
    gradient = loss
    for number in reversed(range(blocks)):
        scope = builder.scope("net", f"layers.{number}.fc")
        gradient = builder.add("matmul_backward", scope, phase="backward", inputs=(gradient,), forward=products[number])
    builder.file("train.py", "\n".join(f"line {number}" for number in range(1, 41)))
    return builder.build()


PARTS = ((".norm", "Norm"), (".fc", "Linear"), ("", "Block"))


@pytest.fixture(scope="module")
def index() -> GraphIndex:
    return GraphIndex(network())


def labels(view: GraphView, key: str) -> list[str]:
    group = view.group(key)
    return [label_of(view, group.box, item) for item in group.items]


def key(view: GraphView, path: str) -> str:
    found = view.box("net", path)
    assert found is not None
    return f"b{found}"


def test_repeated_blocks_are_folded_and_unfold(index: GraphIndex) -> None:
    view = index.views["forward"]
    assert labels(view, "b0") == ["input", "net", "loss"]
    group = view.group(key(view, "layers"))
    assert [item.repeated for item in group.items] == [True]
    assert labels(view, key(view, "layers")) == ["layers.0–11"]
    inside = view.group(group.items[0].key)
    assert len(inside.items) == 12
    assert [(link.source, link.target) for link in inside.links] == [(n, n + 1) for n in range(11)]


def test_a_group_has_the_arrows_between_its_own_boxes_alone(index: GraphIndex) -> None:
    view = index.views["forward"]
    group = view.group(key(view, "layers.3"))
    assert labels(view, key(view, "layers.3")) == ["norm", "fc", "add"]
    assert [(link.source, link.target, link.count) for link in group.links] == [(0, 1, 1), (1, 2, 1)]
    top = view.group("b0")
    assert [(link.source, link.target, link.count) for link in top.links] == [(0, 1, 2), (1, 2, 1)]


def test_what_must_be_opened_leads_to_a_box(index: GraphIndex) -> None:
    view = index.views["forward"]
    found = view.box("net", "layers.7.fc")
    assert found is not None
    opened = reveal(view, found)
    assert opened[0] == key(view, "")
    assert opened[2].startswith("f")
    seen = [
        view.key_of(id)
        for one in opened
        for item in view.group(one).items
        for id in view.members(view.group(one).box, item)
    ]
    assert f"b{found}" in seen


def test_a_backward_view_holds_backward_operators_alone(index: GraphIndex) -> None:
    view = index.views["backward"]
    assert int(view.counts[0]) == 12
    assert index.backward[index.graph.nodes[view.leaves[0]].forward] == [view.leaves[0]]


def test_the_neighbourhood_of_a_module_goes_as_far_as_asked(index: GraphIndex) -> None:
    view = index.views["forward"]
    relations = Relations(view)
    centre = view.box("net", "layers.3.fc")
    assert centre is not None
    one = relations.near(centre, up=1, down=1)
    assert {(view.boxes[thing.id].path, thing.hops) for thing in one.things} == {
        ("layers.3.fc", 0),
        ("layers.3.norm", -1),
        ("layers.3", 1),
    }
    assert all(0 <= end < len(one.things) for link in one.links for end in link)
    assert len(relations.near(centre, up=4, down=4).things) > len(one.things)
    assert relations.near(centre, up=6, down=6, most=5).cut


def test_a_block_that_stands_before_and_after_a_module_is_walked_through(index: GraphIndex) -> None:
    view = index.views["forward"]
    centre = view.box("net", "layers.3.fc")
    assert centre is not None
    far = Relations(view).near(centre, up=2, down=2)
    assert ("layers.4.norm", 2) in {(view.boxes[thing.id].path, thing.hops) for thing in far.things}


def test_search_finds_all_words_anywhere_in_path_and_name(index: GraphIndex) -> None:
    found, total = index.search("layers.7 MATMUL")
    assert total == 2  # forward and backward
    assert {view for view, _ in found} == {"forward", "backward"}
    assert index.search("nothing of the kind") == ([], 0)
    assert index.search("  ") == ([], 0)
    assert len(index.search("layers", 5)[0]) == 5


def test_thousands_of_operators_in_one_module_come_in_ranges() -> None:
    builder = GraphBuilder("flat", 0)
    scope = builder.scope("net", "")
    last = builder.add("op0", scope)
    for number in range(1, 10_000):
        last = builder.add(f"op{number}", scope, inputs=(last,))
    view = GraphIndex(builder.build()).views["forward"]
    group = view.group("b1")
    assert len(group.items) <= 30
    assert len(view.group(group.items[0].key).items) <= 60
    assert [(link.source, link.target) for link in group.links] == [(n, n + 1) for n in range(len(group.items) - 1)]


@pytest.mark.parametrize("wrong", ["", "b999", "n999999", "f0:5-2", "f0:x", "f99999:0-1", "<b>", "b-1", "b1.5", "n٣"])
def test_a_key_that_means_nothing_is_refused(index: GraphIndex, wrong: str) -> None:
    with pytest.raises(NameNotFound):
        index.views["forward"].group(wrong)


def test_lines_that_made_operators_lead_to_nodes_and_text(index: GraphIndex) -> None:
    stacks = StackIndex(index.graph)
    assert [(one.file, one.line, one.operators) for one in stacks.lines()] == [("model.py", 12, 36), ("train.py", 4, 1)]
    assert [one.line for one in stacks.lines("SELF.FC")] == [12]
    (line,) = stacks.lines("model.py")
    assert len(stacks.nodes(line.frame)) == 36
    backward = index.views["backward"].leaves[0]
    assert [frame.line for _, frame in stacks.stack(backward)] == [12, 3]  # that of its forward operator
    train = next(place for place, _ in stacks.stack(backward) if index.graph.frames[place].file == "train.py")
    assert len(stacks.nodes(train)) == 36  # it called all of them
    assert stacks.excerpt(train).lines[2] == "line 3"
    assert stacks.excerpt(line.frame).lines == ("x + self.fc(self.norm(x))",)  # the file was not recorded
    with pytest.raises(NameNotFound):
        stacks.excerpt(10_000)


def test_too_many_operators_are_thinned_and_the_rest_stays_connected() -> None:
    builder = GraphBuilder("large", 0, most=100, passing={"view"})
    scope = builder.scope("net", "")
    last = builder.add("op", scope)
    for _ in range(90):
        last = builder.add("op", scope, inputs=(builder.add("view", scope, inputs=(last,)),), forward=last)
    graph = builder.build()
    assert len(graph.nodes) == 91
    assert graph.left_out == 90
    assert all(
        node.inputs == (place - 1,) and node.forward == place - 1 for place, node in enumerate(graph.nodes) if place
    )
    for _ in range(400):
        builder.add("op", scope)
    assert len(builder.build().nodes) == 100


def test_a_graph_survives_the_run_directory(tmp_path: Path) -> None:
    graph = network()
    writer = Writer(tmp_path / "run", RunInfo("run", ("train.py",), 1.0))
    writer.graph(graph)
    writer.close()
    reader = Reader(tmp_path / "run")
    assert reader.graph("step 2") == graph
    assert reader.graph("another") is None
    assert "graphs" in reader.since(0).changed
    assert not list((tmp_path / "run").rglob("*.new"))
    (tmp_path / "run" / "rank-0" / reader.graphs["step 2"].file).unlink()
    assert reader.graph("step 2") is None


@pytest.mark.parametrize(
    "node",
    [GraphNode("op", 5), GraphNode("op", 0, inputs=(0,)), GraphNode("op", 0, stack=3), GraphNode("op", 0, forward=7)],
)
def test_a_graph_that_refers_to_nothing_is_called_damaged(tmp_path: Path, node: GraphNode) -> None:
    writer = Writer(tmp_path / "run", RunInfo("run", ("train.py",), 1.0))
    writer.graph(Graph("bad", 0, (Scope("", ""),), (node,)))
    writer.close()
    with pytest.raises(DamagedError, match="refers to something that is not there"):
        Reader(tmp_path / "run").graph("bad")


def test_a_damaged_or_strange_file_is_named(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", RunInfo("run", ("train.py",), 1.0))
    writer.graph(network())
    writer.close()
    reader = Reader(tmp_path / "run")
    info = reader.graphs["step 2"]
    path = tmp_path / "run" / "rank-0" / info.file
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DamagedError, match=r"graph-0\.bin is damaged"):
        reader.graph("step 2")


def test_a_name_in_the_log_leads_nowhere_outside_the_run(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", RunInfo("run", ("train.py",), 1.0))
    writer.graph(network())
    writer.close()
    reader = Reader(tmp_path / "run")
    info = reader.graphs["step 2"]
    (tmp_path / "secret.bin").write_bytes((reader.part / info.file).read_bytes())
    assert graphs.read(reader.part, info) is not None
    assert graphs.read(reader.part, msgspec.structs.replace(info, file="../../secret.bin")) is None
