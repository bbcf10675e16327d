"""nvdlfw-inspect's LogTensorStats. It has no hooks of its own for plain PyTorch, so it is fed from hooks here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TITLE = "nvdlfw-inspect `LogTensorStats`, fed by hooks"
NEEDS = "nvdlfw-inspect"
COVERS = "smallest, largest, mean, std and norm of leaf outputs, weights and gradients, as fed here; nothing judged"

CONFIG = """\
everything:
  enabled: True
  layers:
    layer_name_regex_pattern: .*
  LogTensorStats:
    enabled: True
    tensors: [output, weight, gradient]
    stats: [min, max, mean, std, l2_norm]
    freq: 1
"""


def attach(model: Any, optimizer: Any) -> tuple[Any, Any]:
    import nvdlfw_inspect
    from nvdlfw_inspect import api

    Path("inspect.yaml").write_text(CONFIG)
    features = str(Path(nvdlfw_inspect.__file__).parent / "debug_features")
    api.initialize("inspect.yaml", feature_dirs=[features], log_dir=".", default_logging_enabled=True)

    def log(name: str, kind: str, tensor: Any) -> None:
        api.log_tensor_stats(name, tensor=tensor.detach(), tensor_name=kind, skip_reduction=True)

    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda _module, _inputs, output, name=name: log(name, "output", output))

    @contextmanager
    def around(step: int) -> Iterator[None]:
        yield
        for name, parameter in model.named_parameters():
            log(name, "weight", parameter)
            if parameter.grad is not None:
                log(name, "gradient", parameter.grad)
        api.step()

    return model, around
