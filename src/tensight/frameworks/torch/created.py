"""Which modules were created, where, and which of them hold which."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, source_of, user_frame
from tensight.frameworks.torch.watching import Watching
from tensight.frameworks.torch.wrappers import wrapped
from tensight.records import Source

Site = tuple[str, int, str]


def _made_at(module: nn.Module) -> Site | None:
    """The user's line that makes a module: not the one in its own `__init__` that calls that of its base."""
    frame = user_frame(4)
    while frame is not None and frame.f_code.co_name == "__init__":
        names = frame.f_code.co_varnames
        if not names or frame.f_locals.get(names[0]) is not module:
            break
        above = frame.f_back
        while above is not None and not is_user_file(above.f_code.co_filename):
            above = above.f_back
        if above is None:
            break
        frame = above
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


class Created:
    """Follows `nn.Module.__init__` and, for copies and unpickled modules, `__setstate__`."""

    def __init__(self, watching: Watching, patches: Patches) -> None:
        self._sites: IdentityMap[nn.Module, Site | None] = IdentityMap()
        self._watching = watching
        self.inside: list[tuple[type[nn.Module], Site | None]] = []  # made inside a forward pass, lately
        note = watching.probe("module creation", self._note)

        def around_init(original):
            def __init__(module, *args, **kwargs):
                original(module, *args, **kwargs)
                if watching.attached:
                    note(module)

            return __init__

        def around_setstate(original):
            def __setstate__(module, state):
                original(module, state)
                if watching.attached:
                    note(module)

            return __setstate__

        patches.wrap(nn.Module, "__init__", around_init)
        patches.wrap(nn.Module, "__setstate__", around_setstate)

    def _note(self, module: nn.Module) -> None:
        site = self._sites[module] = _made_at(module)
        if self._watching.outermost:
            self.inside.append((type(module), site))
            del self.inside[:-16]

    def source(self, module: nn.Module) -> Source | None:
        """The user's line that created a module."""
        site = self._sites.get(module)
        return None if site is None else source_of(*site)

    def all(self) -> Iterator[nn.Module]:
        """Every module that is alive."""
        return (module for module, _ in self._sites.items())

    def topmost(self, module: nn.Module) -> nn.Module:
        """The largest module that holds this one, or the module itself. Wrappers count as what they wrap."""
        parents: dict[int, list[nn.Module]] = {}
        for candidate, _ in self._sites.items():
            for child in getattr(candidate, "_modules", {}).values():
                if child is not None:
                    parents.setdefault(id(child), []).append(candidate)
        best, most = module, -1
        seen = {id(module)}
        waiting = [module]
        while waiting:
            current = waiting.pop()
            above = parents.get(id(current), ())
            for parent in above:
                if id(parent) not in seen:
                    seen.add(id(parent))
                    waiting.append(parent)
            if not any(wrapped(parent) is None for parent in above) and wrapped(current) is None:
                size = sum(1 for _ in current.modules())
                if size > most:
                    best, most = current, size
        return best
