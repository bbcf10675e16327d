"""From records to causes: what went wrong, where, since when, why, and what to do.

`Engine` is fed with the records of a run, live or recorded; `Case` is the evidence it gathers; a `Rule` concludes.
"""

from tensight.diagnosis.case import Case
from tensight.diagnosis.engine import Engine
from tensight.diagnosis.rule import Rule

__all__ = ["Case", "Engine", "Rule"]
