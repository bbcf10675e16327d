"""Languages and configurations: watchpoints, expressions, selectors, slices, TOML, YAML, JSON, messages of crashes."""

from __future__ import annotations

import json
from pathlib import Path

from tensight.diagnosis import crashes, crashes_mindspore
from tensight.dump import settings as dump_settings
from tensight.errors import UsageError
from tensight.frameworks.crash import Crash, Input
from tensight.records import TensorInfo
from tensight.runs import muting, slicing
from tensight.tuning import config
from tensight.watchpoints import spec
from tensight.watchpoints.checker import Checker
from tensight.watchpoints.condition import History
from tensight.watchpoints.expression import Expression
from tensight.watchpoints.selectors import Selector
from tests.fuzz.trying import Parser, Prepared
from tests.watchpoints.records import plain, sized, tensor

SPECS = (
    "TL(max_gt=100) on gradient:encoder.* after=10 at_most=5 action=pause",
    "max > 3 * median(max, 100) on activation:*",
    'TO on weight:*, gradient:head.fc name="a \\" b" every=3 in_a_row=2',
    "WCL(abs_mean_update_ratio_gt=0.1) on weight:**",
    "not (abs(min) > 1e3 or nan > 0) and change(max, 5) < -2 on loss:*",
)
EXPRESSIONS = (
    "max > 3 * median(max, 100)",
    "not (abs(min) > 1e3 or nan > 0) and change(max, 5) < -2.5e-3",
    "sqrt(l2) / log(count) >= previous(mean, 3) - -1",
    "zero_percentage == 100 or max(max, 9) != min(min, 9)",
)
SELECTORS = ("gradient:encoder.*, weight:**.fc", "*", "output:layer?.*", "loss:*", "activation:a.b#1,input:*")
SLICES = ("1:5, :, ::2", "0", "..., -1", ":", "1:2:3,4")
TOML = """watch = ["TO on gradient:*"]
[[watchpoint]]
condition = "TL"
parameters = { max_gt = 100 }
on = "gradient:encoder.*"
action = "pause"
[[watchpoint]]
expression = "max > 3 * median(max, 100)"
after = 3
"""
YAML = (
    """command: python train.py --lr {lr} --width {width}
parameters:
  lr: 1e-4..1e-1 log
  width: [16, 32, 64]
  drop: {low: 0.0, high: 0.9}
minimize: loss
trials: 8
workers: 2
sampler: tpe
pruner: median
timeout: 60
seed: 3
pattern: "loss=(.*)"
environment: {A: b, C: 3}
prune_findings: [gradient-flow]
""",
    """command: python train.py
summary_base_dir: /tmp/x
tuner: {name: gp, args: {method: ucb}}
target: {group: metric, name: Accuracy, goal: maximize}
parameters:
  learning_rate: {bounds: [0.0001, 0.001], type: float}
  batch_size: {choice: [32, 64], type: int, source: user_defined}
""",
)
DUMP = (
    {
        "common_dump_settings": {
            "op_debug_mode": 0,
            "dump_mode": 1,
            "path": "/x",
            "net_name": "Net",
            "iteration": "0|5-8|100-120",
            "saved_data": "tensor",
            "input_output": 0,
            "kernels": ["Default/fc/MatMul", "name-regex(.*Conv.*)"],
            "support_device": [0, 1],
        },
        "e2e_dump_settings": {"enable": True, "trans_flag": True, "stat_calc_mode": "host"},
    },
)
MESSAGES = (
    "mat1 and mat2 shapes cannot be multiplied (32x10 and 20x5)",
    "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
    "Given groups=1, weight of size [6, 1, 5, 5], expected input[1, 3, 28, 28] to have 1 channels, but got 3 channels",
    "Expected input batch_size (4) to match target batch_size (8).",
    "shape '[4, 5]' is invalid for input of size 21",
    "stack expects each tensor to be equal size, but got [3, 4] at entry 0 and [3, 5] at entry 1",
    "expected scalar type Float but found Half",
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [4]], which is output 0 of ReluBackward0, is at version 1; expected version 0 instead.",
    "Error(s) in loading state_dict for Net:\n\tsize mismatch for fc.weight: copying a param with shape "
    "torch.Size([3, 4]) from checkpoint, the shape in current model is torch.Size([5, 4]).",
    "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity)",
    "DataLoader worker (pid 123) is killed by signal: Killed.",
    "Target 10 is out of bounds.",
    "For 'MatMul', the input dimensions must be equal, but got 'x1_col': 3 and 'x2_row': 4.",
    "Unsupported op [Foo] on CPU, Please confirm whether the device target setting is correct",
    "For 'Add', x.shape and y.shape need to broadcast. The value of x.shape[-1] or y.shape[-1] must be 1",
)


def text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _file(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def watchpoint(folder: Path) -> Prepared:
    def read(data: bytes) -> None:
        found = spec.parse(text(data), 1)
        assert spec.parse(spec.to_text(found), 1) == found
        Checker([found], on_error=_raise)

    return Prepared([one.encode() for one in SPECS], read, [b" on ", b"after=", b"TL(", b"max_gt=", b"name="])


def _raise(where: str, error: Exception) -> None:
    raise error


def expression(folder: Path) -> Prepared:
    history = History((0, 1, 2), tuple(sized(value) for value in (1.0, 2.0, float("inf"))))

    def read(data: bytes) -> None:
        found = Expression(text(data))
        found.judge(plain(), history, tensor())

    words = [b"max", b"median(", b", 9)", b"(", b")", b" and ", b" or ", b"not ", b"previous(", b"1e308", b"/ 0"]
    return Prepared([one.encode() for one in EXPRESSIONS], read, words)


def selector(folder: Path) -> Prepared:
    infos = [tensor(node="encoder.0.attn" * 20), tensor(kind="gradient", node="a" * 400), TensorInfo(3, "loss", "", "")]

    def read(data: bytes) -> None:
        found = Selector.parse(text(data))
        for info in infos:
            found.selects(info)

    return Prepared([one.encode() for one in SELECTORS], read, [b"*a" * 20, b"**", b"?", b"[!a]", b"gradient:"])


def slices(folder: Path) -> Prepared:
    def read(data: bytes) -> None:
        slicing.shown(slicing.parse(text(data), (4, 5, 6)), 3)

    return Prepared([one.encode() for one in SLICES], read, [b"...", b":", b"::", b"None"])


def watch_file(folder: Path) -> Prepared:
    return Prepared(
        [TOML.encode()],
        lambda data: spec.load(_file(folder, "watch.toml", data)),
        [b"[[watchpoint]]\n", b"parameters", b"'''", b"2020-01-01", b"nan", b"[a]\n", b"a.b.c=1\n"],
    )


def tune_file(folder: Path) -> Prepared:
    return Prepared(
        [one.encode() for one in YAML],
        lambda data: config.load(_file(folder, "tune.yaml", data)),
        [b"&a [*a, *a]", b"*a", b"<<: *a", b"!!binary ", b"2001-99-99", b"!!set", b"? ", b"1..2", b"12:30:45", b"|\n"],
    )


def dump_file(folder: Path) -> Prepared:
    return Prepared(
        [json.dumps(one).encode() for one in DUMP],
        lambda data: dump_settings.load(_file(folder, "dump.json", data)),
        [b"iteration", b"kernels", b"0|5-8", b"99999999999-1", b"name-regex((a+)+$)"],
    )


def baseline(folder: Path) -> Prepared:
    good = {"findings": ["dead_relu@a", {"fault": "x", "where": {"module": "a", "parameter": None}}]}
    return Prepared(
        [json.dumps(good).encode(), b'["a", "b"]'],
        lambda data: muting.load_baseline(_file(folder, "baseline.json", data)),
        [b"findings", b"where", b"fault"],
    )


def crash_message(folder: Path) -> Prepared:
    inputs = [Input("mat1", "[32, 10]", (32, 10), "float32"), Input("weight", "[5, 20]", (5, 20), "float32")]

    def read(data: bytes) -> None:
        found = crashes.explain(Crash("RuntimeError", text(data), inputs=inputs))
        if not isinstance(found["why"], str):
            raise UsageError("a crash is explained by words")

    patterns = [*crashes._PATTERNS, *crashes_mindspore.MINDSPORE]
    words = [part.encode() for pattern, _ in patterns for part in pattern.pattern.split("\\") if part.isprintable()]
    return Prepared([one.encode() for one in MESSAGES], read, words)


PARSERS = [
    Parser("watchpoint", watchpoint),
    Parser("expression", expression),
    Parser("selector", selector),
    Parser("slice", slices),
    Parser("watch-file", watch_file),
    Parser("tune-file", tune_file),
    Parser("dump-settings", dump_file),
    Parser("baseline", baseline),
    Parser("crash-message", crash_message),
]
