"""What was learned from ended attempts. The rule is :mod:`scheduling.domain.learning`."""

from collections.abc import Mapping

from marketplace.domain.scu import Sums
from scheduling.models import DecaySum

MICRO = 1_000_000


def name_subject(*, organisation_id: int, name: str, task_type: str) -> str:
    """Whose `work` it is: a job name of an organisation, per task type."""
    return f"{organisation_id}/{name}/{task_type}"


def of_name(*, organisation_id: int, name: str, task_type: str) -> Mapping[str, Sums]:
    """Hardware type → sums of a job name."""
    subject = name_subject(organisation_id=organisation_id, name=name, task_type=task_type)
    return {row.part: sums(row) for row in DecaySum.objects.filter(kind="name", subject=subject)}


def sums(row: DecaySum | None) -> Sums:
    """As the rules want them."""
    return Sums() if row is None else Sums(row.total_micro / MICRO, row.count_micro / MICRO)
