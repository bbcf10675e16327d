"""Notices when the user's program has imported a framework, without importing it first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


class _Told(Loader):
    """The real loader, which tells when the module has run."""

    def __init__(self, loader: Loader, tell: Callable[[], None]) -> None:
        self._loader = loader
        self._tell = tell

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # the module must not see us: packages look at their own loader
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._tell()

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)


class Importing(MetaPathFinder):
    """Calls `found(name)` once, right after one of `names` has been imported.

    >>> seen = []
    >>> with Importing(["this_is_not_there"], seen.append) as watching:
    ...     watching.names
    {'this_is_not_there'}
    """

    def __init__(self, names: Sequence[str], found: Callable[[str], None]) -> None:
        self.names = set(names)
        self._found = found
        self._looking = False

    def __enter__(self) -> Importing:
        for name in sorted(self.names):
            if name in sys.modules:
                self._tell(name)
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.names or self._looking:
            return None
        self._looking = True
        try:
            spec = find_spec(fullname)
        finally:
            self._looking = False
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Told(spec.loader, lambda: self._tell(fullname))
        return spec

    def _tell(self, name: str) -> None:
        if name in self.names:
            self.names.discard(name)
            self._found(name)
