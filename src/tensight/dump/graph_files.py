"""Graph files of MindSpore as a run: IR as text (`.ir`) and graphs of a dump (`.pb`), alone or a folder of them.

A compilation leaves a file for each of its passes. Of a folder the last stage that has full names is taken: what is
executed, else what was validated, else the last numbered pass.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import tensight
from tensight.dump import anf, ir_text
from tensight.dump.anf import Anf
from tensight.dump.graphs import record
from tensight.dump.readers.mindspore_names import place
from tensight.errors import FormatError, TensightError
from tensight.records import Coverage, Module, Network, Parameter, RunEnd, RunInfo
from tensight.store import Writer
from tensight.workers.apart import Visit, size_of

STAGES = (r"\d+_execute_\d+\.ir", r"\d+_validate_\d+\.ir", r"trace_code_graph_\d+(\.ir)?", r"ms_output_.*\.pb")
_NUMBERED = re.compile(r"(?:\w+_)?\d+\.ir")
_MODEL = re.compile(r"_backbone-(\w+)/")
_TENSOR = re.compile(r"(\w+)\[([\d, ]*)\]")
_NOTE = "read from a graph file: what the compiler made of the step; no values"


def files(path: Path) -> list[Path]:
    """The graph files that a path means; none when it means something else."""
    if path.is_file():
        return [path] if path.suffix in (".ir", ".pb") else []
    try:
        names = sorted(one.name for one in path.iterdir() if one.is_file())
    except OSError:
        return []
    for stage in STAGES:
        found = [path / name for name in names if re.fullmatch(stage, name)]
        if found:
            return found
    passes = [name for name in names if _NUMBERED.fullmatch(name)]
    last = max(passes, key=lambda name: int(name.removesuffix(".ir").rpartition("_")[2]), default=None)
    return [path / last] if last else []


def read(path: Path) -> Anf:
    """The graph in a file of either kind."""
    return anf.read(path) if path.suffix == ".pb" else ir_text.read(path)


def load(path: Path, visit: Visit | None = None) -> tuple[dict[str, Anf], list[str]]:
    """The graphs by the names of their files, and sentences about what could not be read."""
    visit = visit or Visit()
    graphs: dict[str, Anf] = {}
    troubles = [f"{file} is refused: {why}" for file, why in visit.without.items()]
    for file in files(path):
        if file in visit.without:
            continue
        visit.at(file, size_of(file))
        try:
            graphs[file.stem] = read(file)
        except (OSError, TensightError) as error:
            troubles.append(str(error))
    if not graphs:
        raise FormatError(troubles[0] if troubles else f"{path} holds no graph files of MindSpore (.ir, .pb)")
    return graphs, troubles


def write(path: Path, graphs: dict[str, Anf], folder: Path, troubles: list[str]) -> int:
    """Write a run that holds graphs; answers how many operators they have."""
    info = RunInfo(
        id=folder.name,
        command=("tensight", "import", str(path)),
        started=time.time(),
        framework="mindspore",
        tensight=tensight.__version__,
        level="op",
    )
    writer = Writer(folder, info)
    operators = 0
    for name, graph in graphs.items():
        network = network_of(graph)
        writer.network(network)
        writer.graph(record(name, 0, graph, network.name, _NOTE))
        operators += sum("/" in node.name for node in graph.nodes.values())
    writer.coverage(Coverage())
    writer.end(RunEnd("finished", time.time(), None, 0, lost=tuple(troubles)))
    writer.close()
    return operators


def network_of(graph: Anf) -> Network:
    """The model as far as names of operators and parameters tell it."""
    modules = {"": Module("", "network")}
    parameters: dict[str, Parameter] = {}
    for node in graph.nodes.values():
        if "/" in node.name:
            model = _MODEL.search(node.name)
            if model is not None:
                modules[""] = Module("", model[1])
            at = place(node.name, node.type)
            pieces = at.module.split(".") if at.module and at.phase != "update" else []
            for depth in range(1, len(pieces) + 1):
                path = ".".join(pieces[:depth])
                type = at.type if depth == len(pieces) else ""
                if path not in modules or (type and not modules[path].type):
                    modules[path] = Module(path, type)
        elif node.type in ("Parameter", "Buffer"):
            found = _TENSOR.match(node.outputs[0]) if node.outputs else None
            dtype, shape = (found[1], found[2]) if found else ("", "")
            parameters[node.name] = Parameter(
                node.name,
                tuple(int(length) for length in shape.split(",") if 0 < len(length.strip()) < 16),
                dtype,
                trainable=node.type == "Parameter",
                buffer=node.type == "Buffer",
                role="buffer" if node.type == "Buffer" else "bias" if node.name.endswith(".bias") else "weight",
                module=node.name.rpartition(".")[0],
            )
    return Network(modules[""].type, modules[""].type, tuple(modules.values()), tuple(parameters.values()), True)
