from scheduling.models.artefacts import Artefact
from scheduling.models.attempts import Attempt, AttemptReport
from scheduling.models.changes import MarketChange
from scheduling.models.checkpoints import Checkpoint
from scheduling.models.decay import DecayAttempt, DecaySum
from scheduling.models.decisions import PlacementDecision
from scheduling.models.engine import EngineLeader
from scheduling.models.jobs import Job, JobEvent, Task
from scheduling.models.leases import Lease
from scheduling.models.links import Link
from scheduling.models.logs import LogChunk
from scheduling.models.meters import Meter
from scheduling.models.metrics import AttemptMetric
from scheduling.models.nodes import NodeState
from scheduling.models.quotes import Quote
from scheduling.models.sweeps import SweepState

__all__ = [
    "Artefact",
    "Attempt",
    "AttemptMetric",
    "AttemptReport",
    "Checkpoint",
    "DecayAttempt",
    "DecaySum",
    "EngineLeader",
    "Job",
    "JobEvent",
    "Lease",
    "Link",
    "LogChunk",
    "MarketChange",
    "Meter",
    "NodeState",
    "PlacementDecision",
    "Quote",
    "SweepState",
    "Task",
]
