"""Hyper-parameter search over runs. In a script: the values of a trial, and a way to report how well they do."""

from tensight.tuning.values import HyperConfig, is_trial, report

__all__ = ["HyperConfig", "is_trial", "report"]
