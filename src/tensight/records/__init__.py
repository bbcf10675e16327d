"""The frozen nouns that flow from the training process to every view.

Records know nothing of frameworks, files or pages. They are msgspec structs, so one definition gives the wire
format, the JSON schema and the page's TypeScript types.
"""

from tensight.records.event import Event
from tensight.records.finding import Evidence, Finding, Where
from tensight.records.graph import Graph, GraphInfo, GraphNode
from tensight.records.hit import ErrorCode, Hit, Watchpoint
from tensight.records.network import Module, Network, Parameter, Part
from tensight.records.observation import Observation, TensorInfo
from tensight.records.run import Coverage, Ended, Gap, Replay, ReplayStatus, RunEnd, RunInfo
from tensight.records.shard import Shard
from tensight.records.source import Source
from tensight.records.statistics import Change, Needs, Stats, Within
from tensight.records.step import Depth, StepRecord
from tensight.records.words import Kind, Level, Phase

__all__ = [
    "Change",
    "Coverage",
    "Depth",
    "Ended",
    "ErrorCode",
    "Event",
    "Evidence",
    "Finding",
    "Gap",
    "Graph",
    "GraphInfo",
    "GraphNode",
    "Hit",
    "Kind",
    "Level",
    "Module",
    "Needs",
    "Network",
    "Observation",
    "Parameter",
    "Part",
    "Phase",
    "Replay",
    "ReplayStatus",
    "RunEnd",
    "RunInfo",
    "Shard",
    "Source",
    "Stats",
    "StepRecord",
    "TensorInfo",
    "Watchpoint",
    "Where",
    "Within",
]
