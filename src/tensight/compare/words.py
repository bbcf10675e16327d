"""What PyTorch and MindSpore call the same things, in PyTorch's words."""

from __future__ import annotations

from collections.abc import Mapping

from tensight.records.event import Value

_TYPES = {
    "Dense": "Linear",
    "SequentialCell": "Sequential",
    "CellList": "ModuleList",
    "CellDict": "ModuleDict",
    "Conv1dTranspose": "ConvTranspose1d",
    "Conv2dTranspose": "ConvTranspose2d",
    "Conv3dTranspose": "ConvTranspose3d",
    "BatchNorm3d": "BatchNorm3d",
    "FastGelu": "GELU",
    "Momentum": "SGD",
    "AdamWeightDecay": "AdamW",
    "SoftmaxCrossEntropyWithLogits": "cross_entropy",
}
_SLOTS = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "embedding_table": "weight",
}
_LOSSES = {"crossentropyloss": "cross_entropy", "nllloss": "nll_loss", "l1loss": "l1_loss", "mseloss": "mse_loss"}
_SETTINGS = {
    "in_channels": "in_features",
    "out_channels": "out_features",
    "epsilon": "eps",
    "alpha": "negative_slope",
    "axis": "dim",
    "use_nesterov": "nesterov",
    "has_bias": "bias",
    "learning_rate": "lr",
}


def kind_of(name: str) -> str:
    """A module's or optimizer's type, in one framework's words.

    >>> kind_of("Dense"), kind_of("Linear")
    ('Linear', 'Linear')
    """
    return _TYPES.get(name, name)


def loss_of(name: str) -> str:
    """A loss function's name, as a function.

    >>> loss_of("MSELoss"), loss_of("mse_loss")
    ('mse_loss', 'mse_loss')
    """
    return _LOSSES.get(name.lower(), _TYPES.get(name, name))


def slot_of(slot: str) -> str:
    """A parameter's own name.

    >>> slot_of("gamma"), slot_of("weight_ih_l0")
    ('weight', 'weight_ih_l0')
    """
    return _SLOTS.get(slot, slot)


def path_of(path: str) -> str:
    """A module's path: MindSpore puts a `bn2d` inside BatchNorm3d.

    >>> path_of("block.bn.bn2d")
    'block.bn'
    """
    return path.removesuffix(".bn2d")


def settings_of(settings: Mapping[str, Value], type: str = "") -> dict[str, Value]:
    """Settings under the same names and conventions.

    >>> settings_of({"beta1": 0.9, "beta2": 0.99, "use_nesterov": False})
    {'betas': '0.9, 0.99', 'nesterov': False}
    """
    found: dict[str, Value] = {}
    betas = [settings.get("beta1"), settings.get("beta2")]
    if all(isinstance(beta, float) for beta in betas):
        found["betas"] = ", ".join(f"{beta:g}" for beta in betas)
    convolution = "Conv" in type
    for name, value in settings.items():
        if name in ("beta1", "beta2", "keep_prob"):
            continue
        renamed = name if convolution and name.endswith("_channels") else _SETTINGS.get(name, name)
        if name == "alpha" and "Leaky" not in type:
            renamed = name
        found[renamed] = value
    return found


def same_value(a: Value, b: Value) -> bool:
    """Whether two settings agree: MindSpore keeps numbers as float32.

    >>> same_value(0.9, 0.8999999761581421), same_value(1e-5, 1e-7), same_value("x", "x")
    (True, False, True)
    """
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= 1e-6 * max(abs(a), abs(b))
    return a == b
