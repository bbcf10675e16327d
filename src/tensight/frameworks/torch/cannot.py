"""What the PyTorch adapter cannot do, and why. Imports nothing: the published table is made from it."""

from __future__ import annotations

CANNOT: dict[str, str] = {}
