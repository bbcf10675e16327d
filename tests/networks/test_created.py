"""Where a module was made: the line that calls its class, not one inside it."""

from __future__ import annotations

import linecache
from typing import Any

from torch import nn

from tensight.frameworks.torch import created


def probe(module: nn.Module) -> Any:
    return note(module)


def note(module: nn.Module) -> Any:
    return created._made_at(module)


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.site = probe(self)


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Part()


def code(site: Any) -> str:
    return linecache.getline(site[0], site[1]).strip()


def test_a_module_is_made_where_its_class_is_called() -> None:
    part = Part()
    assert code(part.site) == "part = Part()"
    assert code(Whole().part.site) == "self.part = Part()"
