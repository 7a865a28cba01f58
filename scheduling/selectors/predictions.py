"""What ran before in a project: for the task type and the run time of the next job."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.domain.demand import TaskSpec, TaskType
from scheduling.domain.learning import corrected
from scheduling.domain.prediction import Basis, Prediction, Run, predict
from scheduling.models import Attempt, Job
from scheduling.selectors import decay

LOOKED_AT = 500
"""Newest runs of a project that are looked at, for names and commands alike."""


@dataclass(frozen=True)
class History:
    """What succeeded in a project, newest first: (job name, command, task type, run)."""

    runs: Sequence[tuple[str, str, str, Run]] = ()

    def run_time(self, spec: TaskSpec, *, name: str) -> Prediction:
        """What past runs say: those of this name, else those of this command."""
        named = [_as(spec, kind, run) for known, _, kind, run in self.runs if known == name]
        if named:
            return predict(named, basis=Basis.NAME, max_duration_s=spec.max_duration_s)
        alike = [_as(spec, kind, run) for _, command, kind, run in self.runs if command == spec.run]
        return predict(alike, basis=Basis.COMMAND, max_duration_s=spec.max_duration_s)


def _as(spec: TaskSpec, kind: str, run: Run) -> Run:
    """SCU is told per task type: of a run of another type only its seconds say something."""
    return run if kind == spec.task_type else Run(run.seconds)


def history(*, organisation_id: int, project_id: int) -> History:
    """One query per project; a cycle asks once."""
    rows: Any = Attempt.objects.filter(
        task__job__organisation_id=organisation_id,
        task__job__project_id=project_id,
        state="succeeded",
        started_at__isnull=False,
        ended_at__isnull=False,
    ).order_by("-id")
    fields = (
        "task__job__name",
        "task__spec__run",
        "task__spec__task_type",
        "started_at",
        "ended_at",
        "learned__scu_micro",
    )
    return History(
        [
            (name, run, str(kind), Run(max(1.0, (end - start).total_seconds()), scu / 1_000_000 if scu else None))
            for name, run, kind, start, end, scu in rows.values_list(*fields)[:LOOKED_AT]
        ]
    )


def past_kinds(*, organisation_id: int, name: str) -> Sequence[str]:
    """Task types that jobs of this name were given by their author, newest first; at most five."""
    rows = Job.objects.filter(organisation_id=organisation_id, name=name).order_by("-id")[:5]
    kinds = [str(job.spec.get("task_type") or TaskType.CUSTOM) for job in rows]
    return [kind for kind in kinds if kind != TaskType.CUSTOM]


def longer(*, organisation_id: int, name: str, task_type: str) -> float:
    """By which factor a job of this name needs more than the work that its spec names, as its earlier runs showed."""
    return corrected(1.0, decay.of_name(organisation_id=organisation_id, name=name, task_type=task_type))
