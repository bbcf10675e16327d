"""Code that reads functions instead of calling them: scripting, symbolic tracing, export, torch.compile."""

from __future__ import annotations

import sys
from typing import Any

import torch

from tensight.frameworks.patches import Patches, is_ours
from tensight.frameworks.torch.compiled_frames import stay_out
from tensight.frameworks.torch.watching import Watching


class Reading:
    """Lets such code see torch's own functions.

    Scripting, tracing and export read them while they run: the replacements are lifted meanwhile. torch.compile knows
    functions by tables that it makes once, at its first use: they are made from torch's own, and our functions are
    then read like any Python of the user's, which lead to torch's own.
    """

    def __init__(self, watching: Watching, patches: Patches) -> None:
        self._patches = patches
        self._watching = watching
        self._ready = watching.probe("torch.compile", self._make_tables)
        patches.wrap(torch, "compile", self._around_compile)
        patches.wrap(torch.jit, "script", self._around)
        for module, owner, name in (
            ("torch.fx._symbolic_trace", "Tracer", "trace"),
            ("torch.export", "", "export"),
        ):
            loaded = sys.modules.get(module)
            if loaded is not None:
                patches.wrap(getattr(loaded, owner) if owner else loaded, name, self._around)

    def _around(self, original: Any) -> Any:
        def reading(*args, **kwargs):
            with self._patches.lifted():
                return original(*args, **kwargs)

        return reading

    def _around_compile(self, original: Any) -> Any:
        def compile(*args, **kwargs):
            self._ready()
            return original(*args, **kwargs)

        return compile

    def _make_tables(self) -> None:
        with self._patches.lifted():
            from torch._dynamo import trace_rules
            from torch._dynamo.variables import torch as known

            for owner, name in (
                (trace_rules, "get_torch_obj_rule_map"),
                (trace_rules, "get_tensor_method"),
                (known, "get_overridable_functions"),
                (known.TorchInGraphFunctionVariable, "_get_handlers"),
            ):
                make = getattr(owner, name, None)
                if make is not None:
                    make()
        put_right()
        stay_out(self._patches, self._watching)


def put_right() -> None:
    """Put torch's own functions where ours stand in the table by which torch.compile knows what it can compile.

    It is made when torch._dynamo is imported, which the first layer of many a model does. Ours are gone some day, and
    what calls torch's own then must still be known.
    """
    rules = sys.modules.get("torch._dynamo.trace_rules")
    made = getattr(rules, "get_torch_obj_rule_map", None)
    if made is None or not made.cache_info().currsize:
        return
    table = made()
    for function in list(table):
        original = getattr(function, "__wrapped__", None)
        if original is not None and is_ours(function):
            table.setdefault(original, table.pop(function))
