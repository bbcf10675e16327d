"""Weights that are loaded: whether they fit the model, and whether that model is being trained."""

from __future__ import annotations

from typing import Any

from torch import nn

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.networks import Networks
from tensight.frameworks.torch.replicas import position
from tensight.frameworks.torch.watching import Watching
from tensight.records.event import Value


class Loading:
    """Watches `load_state_dict`, which says what did not fit and is seldom asked."""

    def __init__(self, watching: Watching, networks: Networks, patches: Patches) -> None:
        self.watching = watching
        self.networks = networks
        patches.wrap(nn.Module, "load_state_dict", self._around)

    def _around(self, original: Any) -> Any:
        watching = self.watching
        loaded = watching.probe("loading weights", self._loaded)

        def load_state_dict(module, state_dict, *args, **kwargs):
            result = original(module, state_dict, *args, **kwargs)
            if watching.active:
                loaded(module, state_dict, result)
            return result

        return load_state_dict

    def _loaded(self, module: nn.Module, given: Any, result: Any) -> None:
        missing, unexpected = list(result.missing_keys), list(result.unexpected_keys)
        entry = self.networks.entries.get(module)
        trained = any(parameter in self.networks.optimizer_of for parameter in module.parameters())
        if entry is not None and trained and not missing and self.watching.sink.step > 0:
            self.watching.sink.event("reloaded", entry.network, {}, user_source())
        if not self.watching.sink.step and position() is not None:
            self.watching.sink.event("weights_loaded", entry.network if entry is not None else "", {}, user_source())
        if not missing and not unexpected:
            return
        values: dict[str, Value] = {
            "missing": len(missing),
            "unexpected": len(unexpected),
            "given": len(given),
            "first_missing": missing[0] if missing else "",
            "first_unexpected": unexpected[0] if unexpected else "",
        }
        self.watching.sink.event("loaded", type(module).__name__, values, user_source())
