from scheduling.models.artefacts import Artefact
from scheduling.models.attempts import Attempt, AttemptReport
from scheduling.models.decisions import PlacementDecision
from scheduling.models.jobs import Job, JobEvent, Task
from scheduling.models.leases import Lease
from scheduling.models.links import Link
from scheduling.models.logs import LogChunk
from scheduling.models.nodes import NodeState
from scheduling.models.quotes import Quote

__all__ = [
    "Artefact",
    "Attempt",
    "AttemptReport",
    "Job",
    "JobEvent",
    "Lease",
    "Link",
    "LogChunk",
    "NodeState",
    "PlacementDecision",
    "Quote",
    "Task",
]
