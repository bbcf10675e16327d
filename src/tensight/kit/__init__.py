"""The training kit: callbacks, metrics, print, logs, hooks, loss scale, schedules; the same names on both frameworks.

Names are looked up when they are first used, so that importing the kit costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensight.kit.blocking import launch_blocking
    from tensight.kit.callbacks.callback import Callback, Params, RunContext
    from tensight.kit.callbacks.checkpoint import CheckpointConfig, ModelCheckpoint, latest_checkpoint
    from tensight.kit.callbacks.driver import Driver
    from tensight.kit.callbacks.keeping import History, LambdaCallback, SaveBest
    from tensight.kit.callbacks.monitors import LossMonitor, LossScaleMonitor, TimeMonitor
    from tensight.kit.callbacks.rates import LearningRateScheduler, ReduceLROnPlateau
    from tensight.kit.callbacks.stopping import EarlyStopping, OnRequestExit, StopAtTime
    from tensight.kit.callbacks.summary import SummaryCollector
    from tensight.kit.checkpoints import load_checkpoint, save_checkpoint
    from tensight.kit.data_check import check_batch, check_dataset
    from tensight.kit.hooks import on_backward, on_forward, on_forward_pre, on_gradient, on_parameter, on_saved
    from tensight.kit.logs import get_logger
    from tensight.kit.loop import Loop
    from tensight.kit.loss_landscape import landscape
    from tensight.kit.loss_scale import DynamicLossScaleManager, FixedLossScaleManager
    from tensight.kit.metrics import (
        AUC,
        F1,
        MAE,
        MSE,
        ROC,
        Accuracy,
        BleuScore,
        ConfusionMatrix,
        CosineSimilarity,
        Dice,
        Fbeta,
        Loss,
        Metric,
        Perplexity,
        Precision,
        Recall,
        Tolerance,
        Top1CategoricalAccuracy,
        Top5CategoricalAccuracy,
        TopKCategoricalAccuracy,
    )
    from tensight.kit.model import Model
    from tensight.kit.precision import float16_on_ascend, low_precision, scale_one_test
    from tensight.kit.rate_range import range_test
    from tensight.kit.summaries import compare_summaries, read_summary

# where each name lives; the others are metrics
_PUBLIC = {
    "launch_blocking": "blocking",
    **dict.fromkeys(("Callback", "Params", "RunContext"), "callbacks.callback"),
    **dict.fromkeys(("CheckpointConfig", "ModelCheckpoint", "latest_checkpoint"), "callbacks.checkpoint"),
    "Driver": "callbacks.driver",
    **dict.fromkeys(("History", "LambdaCallback", "SaveBest"), "callbacks.keeping"),
    **dict.fromkeys(("LossMonitor", "LossScaleMonitor", "TimeMonitor"), "callbacks.monitors"),
    **dict.fromkeys(("LearningRateScheduler", "ReduceLROnPlateau"), "callbacks.rates"),
    **dict.fromkeys(("EarlyStopping", "OnRequestExit", "StopAtTime"), "callbacks.stopping"),
    "SummaryCollector": "callbacks.summary",
    **dict.fromkeys(("load_checkpoint", "save_checkpoint"), "checkpoints"),
    **dict.fromkeys(("check_batch", "check_dataset"), "data_check"),
    **dict.fromkeys(
        ("on_backward", "on_forward", "on_forward_pre", "on_gradient", "on_parameter", "on_saved"), "hooks"
    ),
    "landscape": "loss_landscape",
    "get_logger": "logs",
    "Loop": "loop",
    **dict.fromkeys(("DynamicLossScaleManager", "FixedLossScaleManager"), "loss_scale"),
    "Model": "model",
    **dict.fromkeys(("float16_on_ascend", "low_precision", "scale_one_test"), "precision"),
    "range_test": "rate_range",
    **dict.fromkeys(("compare_summaries", "read_summary"), "summaries"),
}

__all__ = [
    "AUC",
    "F1",
    "MAE",
    "MSE",
    "ROC",
    "Accuracy",
    "BleuScore",
    "Callback",
    "CheckpointConfig",
    "ConfusionMatrix",
    "CosineSimilarity",
    "Dice",
    "Driver",
    "DynamicLossScaleManager",
    "EarlyStopping",
    "Fbeta",
    "FixedLossScaleManager",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "Loop",
    "Loss",
    "LossMonitor",
    "LossScaleMonitor",
    "Metric",
    "Model",
    "ModelCheckpoint",
    "OnRequestExit",
    "Params",
    "Perplexity",
    "Precision",
    "Recall",
    "ReduceLROnPlateau",
    "RunContext",
    "SaveBest",
    "StopAtTime",
    "SummaryCollector",
    "TimeMonitor",
    "Tolerance",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "check_batch",
    "check_dataset",
    "compare_summaries",
    "float16_on_ascend",
    "get_logger",
    "landscape",
    "latest_checkpoint",
    "launch_blocking",
    "load_checkpoint",
    "low_precision",
    "on_backward",
    "on_forward",
    "on_forward_pre",
    "on_gradient",
    "on_parameter",
    "on_saved",
    "range_test",
    "read_summary",
    "save_checkpoint",
    "scale_one_test",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'tensight.kit' has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"tensight.kit.{_PUBLIC.get(name, 'metrics')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
