"""Every rule Tensight has. One import and one line here add a rule."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.accumulation import AccumulationNotScaled, MissingZeroGrad, TooFewOptimizerSteps
from tensight.diagnosis.rules.attention import AttentionMaskWrong
from tensight.diagnosis.rules.attention_scale import AttentionSaturated
from tensight.diagnosis.rules.bootstrapping import BootstrapTargetTrained
from tensight.diagnosis.rules.casts import CastPingPong, NumbersLost
from tensight.diagnosis.rules.class_weights import ClassWeightsInverted
from tensight.diagnosis.rules.clipping import ClearedBeforeStep, ClipAfterStep, ClipTooSmall
from tensight.diagnosis.rules.collapse import TargetsCollapse
from tensight.diagnosis.rules.data import (
    ConstantInput,
    InputNotNormalised,
    LabelsUnrelated,
    NanInInput,
    SortedByClass,
)
from tensight.diagnosis.rules.data_course import (
    BatchDrawnAlike,
    OutlierBatch,
    SameBatchEveryStep,
    StoredDataChanges,
    TargetNotNormalised,
)
from tensight.diagnosis.rules.data_scale import InputTooSmall
from tensight.diagnosis.rules.distributed import (
    CollectivesOutOfOrder,
    DdpWrapperBypassed,
    GradientsNotAveraged,
    GradientsSummed,
    ReplicasDiverge,
    SamplerEpochNotSet,
)
from tensight.diagnosis.rules.divergence import KlDivOnProbabilities
from tensight.diagnosis.rules.drawing import FewSamplesDrawn
from tensight.diagnosis.rules.empty_input import InputIsEmpty
from tensight.diagnosis.rules.evaluation import TrainModeInEvaluation
from tensight.diagnosis.rules.frozen_statistics import FrozenStatisticsMove
from tensight.diagnosis.rules.gradient_flow import DeadRelu, ExplodingSignal
from tensight.diagnosis.rules.guides import AverageBackwards, AverageLost, GuideInTrainingMode
from tensight.diagnosis.rules.hooks import HooksPileUp
from tensight.diagnosis.rules.initialisation import ConstantInit, HugeInit, ZeroInit
from tensight.diagnosis.rules.labels import ConstantLabels
from tensight.diagnosis.rules.language import PaddingNotIgnored, TargetsNotShifted
from tensight.diagnosis.rules.leaking import GradientsOfAnotherLoss
from tensight.diagnosis.rules.learning_rate import LrDecaysTooFast, LrIsZero, LrTooHigh, LrTooLow
from tensight.diagnosis.rules.left_out import NotInOptimizer
from tensight.diagnosis.rules.loss_definition import (
    BroadcastInLoss,
    NllOnProbabilities,
    SigmoidBeforeBceWithLogits,
    SoftmaxBeforeCrossEntropy,
    SoftmaxOverBatchDim,
    SumInsteadOfMean,
)
from tensight.diagnosis.rules.loss_mask import LossMaskInverted
from tensight.diagnosis.rules.loss_reading import OverlapOfRaw, RowsCutAcross, SignedTargets, TargetsOutOfRange
from tensight.diagnosis.rules.loss_sign import LossSignFlipped, LossUnboundedBelow
from tensight.diagnosis.rules.mode import BatchNormOfOne, DropoutInEval, EvalModeInTraining, RunningStatisticsLag
from tensight.diagnosis.rules.nonfinite import NonFinite
from tensight.diagnosis.rules.optimizer_settings import (
    BetasSwapped,
    EpsTooLarge,
    MomentumTooLarge,
    ParametersInTwoOptimizers,
    WeightsOverwritten,
)
from tensight.diagnosis.rules.output_range import OutputRangeTooSmall
from tensight.diagnosis.rules.own_backward import OwnBackwardWrong
from tensight.diagnosis.rules.penalties import PenaltyWithoutGradient
from tensight.diagnosis.rules.pictures import TargetsTurned
from tensight.diagnosis.rules.precision import (
    ClipBeforeUnscale,
    GradientUnderflow,
    LostUpdates,
    ScaleKeepsFalling,
)
from tensight.diagnosis.rules.rebuilding import OptimizerRebuilt
from tensight.diagnosis.rules.resource import GraphRetained, RecompilationStorm
from tensight.diagnosis.rules.restoring import WeightsNotRestored
from tensight.diagnosis.rules.rising import LrKeepsRising, LrRisesAgain
from tensight.diagnosis.rules.same_answer import AveragedOverBatch
from tensight.diagnosis.rules.same_sample import SameSampleRepeated
from tensight.diagnosis.rules.saturation import SaturatedActivation, TinyInit
from tensight.diagnosis.rules.schedule_length import OneCyclePerEpoch
from tensight.diagnosis.rules.sequences import BatchAndTimeSwapped, SamplesMixedByView
from tensight.diagnosis.rules.starting import CheckpointDoesNotFit, EvaluationInputsDiffer
from tensight.diagnosis.rules.summands import PenaltyOutweighs, SumOutweighs
from tensight.diagnosis.rules.unreached import GradientsNeverUsed, LossReachesNothing, OutputNotUsed
from tensight.diagnosis.rules.unscaling import GradientsNotUnscaled
from tensight.diagnosis.rules.unused import ModuleNeverUsed
from tensight.diagnosis.rules.vanishing import VanishingGradient
from tensight.diagnosis.rules.waiting import DataLoadingStarvation
from tensight.diagnosis.rules.weight_decay import WeightDecayTooLarge
from tensight.diagnosis.rules.wiring import (
    DetachBreaksGraph,
    FrozenParameters,
    StaleOptimizer,
    UnregisteredParameters,
)
from tensight.diagnosis.rules.workers import DuplicateAugmentation, DuplicateSamples
from tensight.diagnosis.rules.zero_slope import HeldAtLimit, OperatorWithoutSlope

RULES: tuple[type[Rule], ...] = (
    NanInInput,
    NonFinite,
    ZeroInit,
    ConstantInit,
    HugeInit,
    InputNotNormalised,
    ConstantInput,
    InputIsEmpty,
    SameSampleRepeated,
    SortedByClass,
    LabelsUnrelated,
    DeadRelu,
    VanishingGradient,
    ExplodingSignal,
    LrTooHigh,
    LrTooLow,
    LrIsZero,
    LrDecaysTooFast,
    MissingZeroGrad,
    AccumulationNotScaled,
    TooFewOptimizerSteps,
    WeightDecayTooLarge,
    StaleOptimizer,
    UnregisteredParameters,
    DetachBreaksGraph,
    FrozenParameters,
    NotInOptimizer,
    SoftmaxBeforeCrossEntropy,
    SoftmaxOverBatchDim,
    NllOnProbabilities,
    SigmoidBeforeBceWithLogits,
    BroadcastInLoss,
    SumInsteadOfMean,
    SumOutweighs,
    PenaltyOutweighs,
    EvalModeInTraining,
    DropoutInEval,
    BatchNormOfOne,
    LostUpdates,
    GradientUnderflow,
    ScaleKeepsFalling,
    ClipBeforeUnscale,
    GraphRetained,
    HooksPileUp,
    RecompilationStorm,
    DdpWrapperBypassed,
    CollectivesOutOfOrder,
    GradientsNotAveraged,
    GradientsSummed,
    ReplicasDiverge,
    SamplerEpochNotSet,
    AttentionMaskWrong,
    AttentionSaturated,
    TargetsNotShifted,
    PaddingNotIgnored,
    LossSignFlipped,
    DuplicateAugmentation,
    DuplicateSamples,
    StoredDataChanges,
    SameBatchEveryStep,
    BatchDrawnAlike,
    TargetNotNormalised,
    OutlierBatch,
    ClearedBeforeStep,
    ClipTooSmall,
    ClipAfterStep,
    BetasSwapped,
    EpsTooLarge,
    MomentumTooLarge,
    ParametersInTwoOptimizers,
    WeightsOverwritten,
    SaturatedActivation,
    TinyInit,
    TrainModeInEvaluation,
    GuideInTrainingMode,
    AverageBackwards,
    AverageLost,
    CastPingPong,
    NumbersLost,
    DataLoadingStarvation,
    CheckpointDoesNotFit,
    EvaluationInputsDiffer,
    KlDivOnProbabilities,
    WeightsNotRestored,
    ModuleNeverUsed,
    GradientsOfAnotherLoss,
    TargetsTurned,
    OperatorWithoutSlope,
    LossUnboundedBelow,
    InputTooSmall,
    LrKeepsRising,
    LrRisesAgain,
    FewSamplesDrawn,
    SignedTargets,
    TargetsOutOfRange,
    RowsCutAcross,
    OverlapOfRaw,
    HeldAtLimit,
    RunningStatisticsLag,
    FrozenStatisticsMove,
    ConstantLabels,
    OptimizerRebuilt,
    LossReachesNothing,
    OutputNotUsed,
    BatchAndTimeSwapped,
    GradientsNeverUsed,
    GradientsNotUnscaled,
    TargetsCollapse,
    ClassWeightsInverted,
    LossMaskInverted,
    OwnBackwardWrong,
    SamplesMixedByView,
    OutputRangeTooSmall,
    OneCyclePerEpoch,
    AveragedOverBatch,
    BootstrapTargetTrained,
    PenaltyWithoutGradient,
)


ENTRY_POINTS = "tensight.rules"  # the group under which an installed package offers rules of its own


def all_rules(on_error: Callable[[str, BaseException], None] | None = None) -> list[Rule]:
    """A fresh instance of every rule, those of installed packages included: rules may remember what they saw."""
    rules = [rule() for rule in RULES]
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            rules.append(entry.load()())
        except Exception as error:
            if on_error is not None:
                on_error(f"rule {entry.name}", error)
    return rules
