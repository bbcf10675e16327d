"""The rules, one to a file; a new one is a line in `RULES`."""

from __future__ import annotations

from collections.abc import Sequence

from tensight.profiling.advice.alignment import Alignment
from tensight.profiling.advice.allreduce_split import AllReduceSplit
from tensight.profiling.advice.anomaly import AnomalyMode
from tensight.profiling.advice.casts import CastPingPong
from tensight.profiling.advice.collector import GarbageCollection
from tensight.profiling.advice.conversions import Conversions
from tensight.profiling.advice.data_parallel import DataParallelUsed
from tensight.profiling.advice.float64 import AccidentalFloat64
from tensight.profiling.advice.graph_breaks import GraphBreaks
from tensight.profiling.advice.graph_build import GraphBuild
from tensight.profiling.advice.growing_graph import GrowingGraph
from tensight.profiling.advice.jitter import Jitter
from tensight.profiling.advice.layout import LayoutChanges
from tensight.profiling.advice.loader_anew import LoaderAnew
from tensight.profiling.advice.mindspore_modes import DynamicShape, KernelFusion, SinkMode, StaticGraph
from tensight.profiling.advice.mixed_precision import MixedPrecision
from tensight.profiling.advice.optimizer_loop import OptimizerLoop
from tensight.profiling.advice.overlap import PoorOverlap
from tensight.profiling.advice.python_in_step import PythonInStep
from tensight.profiling.advice.recompiles import RecompilationStorm
from tensight.profiling.advice.slow_shapes import SlowShapes
from tensight.profiling.advice.starved_loader import StarvedLoader
from tensight.profiling.advice.sync_batchnorm import SyncBatchNorms
from tensight.profiling.advice.syncs import SynchronisingCalls
from tensight.profiling.advice.threads import OneThread
from tensight.profiling.advice.tiny_batches import TinyBatches
from tensight.profiling.advice.transform import SlowTransform
from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule

RULES: tuple[type[AdviceRule], ...] = (
    StarvedLoader,
    SlowTransform,
    Jitter,
    LoaderAnew,
    SynchronisingCalls,
    CastPingPong,
    LayoutChanges,
    AccidentalFloat64,
    RecompilationStorm,
    GraphBreaks,
    TinyBatches,
    GarbageCollection,
    GrowingGraph,
    PoorOverlap,
    DataParallelUsed,
    SyncBatchNorms,
    PythonInStep,
    OptimizerLoop,
    OneThread,
    AnomalyMode,
    SlowShapes,
    Alignment,
    MixedPrecision,
    StaticGraph,
    SinkMode,
    KernelFusion,
    DynamicShape,
    Conversions,
    AllReduceSplit,
    GraphBuild,
)


def advise(reading: Reading, rules: Sequence[type[AdviceRule]] = RULES) -> list[Advice]:
    """What every rule says, the greatest gain first; what another advice explains is left out."""
    given: list[Advice] = []
    explained: set[str] = set()
    framework = reading.profile.framework
    for kind in rules:
        if framework and framework not in kind.frameworks:
            continue
        advice = kind().look(reading)
        if advice is not None:
            given.append(advice)
            explained.update(kind.explains)
    kept = [advice for advice in given if advice.fault not in explained]
    return sorted(kept, key=lambda advice: -advice.gain * advice.confidence)
