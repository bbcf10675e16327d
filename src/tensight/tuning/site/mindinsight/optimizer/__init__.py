"""The part of MindInsight that scripts of a search import."""

from tensight.tuning.values import HyperConfig

__all__ = ["HyperConfig"]
