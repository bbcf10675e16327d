"""Where MindInsight has it."""

from tensight.tuning.values import HyperConfig

__all__ = ["HyperConfig"]
