"""Modules that only wrap another one: their names are not part of a path."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

# class name → the attribute that holds what is wrapped. By name, so that nothing heavy is imported to compare with.
WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}


def wrapped(module: nn.Module) -> nn.Module | None:
    """What a wrapper wraps; None when the module is no wrapper."""
    attribute = WRAPPERS.get(type(module).__name__)
    if attribute is None:
        return None
    inner = module._modules.get(attribute)
    return inner if inner is not None else getattr(module, attribute, None)


def stripped(module: nn.Module) -> nn.Module:
    """The module inside all its wrappers."""
    inner = wrapped(module)
    while inner is not None:
        module, inner = inner, wrapped(inner)
    return module


def is_compiled(module: nn.Module) -> bool:
    """Whether a call of the module runs compiled code."""
    while True:
        if type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None:
            return True
        inner = wrapped(module)
        if inner is None:
            return False
        module = inner


def walk(root: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Like `named_modules()`, without wrappers: a module that is shared comes once, by its first path."""
    seen: set[int] = set()
    waiting = [("", root)]
    while waiting:
        path, module = waiting.pop()
        module = stripped(module)
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield path, module
        below = [
            (f"{path}.{name}" if path else name, child) for name, child in module._modules.items() if child is not None
        ]
        waiting.extend(reversed(below))
