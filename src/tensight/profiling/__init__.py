"""Where the time of a training goes: timing records, read, and what to do about it."""

from tensight.profiling.advice import RULES, advise
from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule

__all__ = ["RULES", "Advice", "AdviceRule", "Reading", "advise"]
