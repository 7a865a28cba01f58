"""Usage that was metered elsewhere is taken in: JSON rows, a CSV, or a FOCUS file; all of a batch or nothing, once whatever is sent twice.

Who imports stands on both sides of it: an organisation takes in what its own machines did for its own projects (internal charging; the platform's fee
applies as ever). Only an operator imports in the name of another provider, by ``manage.py usage import``.
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from django.db import transaction

from billing.domain import focus, focus_check
from billing.domain import imports as rules
from billing.domain.imports import Context, Project
from billing.domain.metering import Answer, Recorded, UsageFact
from billing.models import UsageImport
from billing.services import usage
from portal.accounts.models import Organisation
from portal.accounts.models import Project as ProjectRow
from portal.audit.services import note
from portal.kit.errors import Finding, InvalidInput

MOST_ROWS = 100_000
MOST_FINDINGS = 100
SOURCE = re.compile(r"[a-z0-9][a-z0-9_-]{0,15}")


def take(
    *,
    organisation: Organisation,
    source: str,
    rows: Sequence[Mapping[str, Any]],
    by: str,
    now: datetime,
    provider: Organisation | None = None,
    format: str = "json",
    first_row: int = 1,
    digest: str = "",
    skipped: int = 0,
    numbers: Sequence[int] = (),
) -> UsageImport:
    """Store a batch of usage rows (see ``billing.domain.imports``). InvalidInput names every bad row; then nothing is stored."""
    if not SOURCE.fullmatch(source):
        raise InvalidInput(
            [Finding("source", "bad_source", "the meter's name has 1 to 16 small letters, digits, - or _", "slurm-a")]
        )
    if not rows:
        raise InvalidInput([Finding("records", "empty", "there is no row of usage in it")])
    if len(rows) > MOST_ROWS:
        raise InvalidInput([Finding("records", "too_many", f"at most {MOST_ROWS} rows at once: send it in parts")])
    seller = provider or organisation
    context = Context(
        organisation_id=organisation.id,
        currency=organisation.currency,
        source=f"{organisation.id}.{source}",
        provider_ref=seller.public_id,
        provider_name=seller.name,
        now=now,
        projects=_projects(organisation),
    )
    facts, findings = rules.facts(rows, context, first=first_row)
    if findings:
        raise InvalidInput((rules.numbered(findings, numbers) if numbers else findings)[:MOST_FINDINGS])
    with transaction.atomic():
        answers = _record(facts, now)
        made = _log(organisation, source, format, digest or _digest(rows), facts, answers, skipped, by, now)
    return made


def take_csv(
    *, organisation: Organisation, source: str, data: bytes, by: str, now: datetime, **options: Any
) -> UsageImport:
    """A CSV with the columns of ``billing.domain.imports``, or a FOCUS 1.2 file (told by its columns). Row numbers are a spreadsheet's: the header is 1."""
    digest = hashlib.sha256(data).hexdigest()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise InvalidInput(
            [Finding("file", "bad_text", f"byte {fault.start} is no UTF-8", "save it as CSV UTF-8")]
        ) from None
    header = text.partition("\n")[0]
    if "BilledCost" in header or "ChargeCategory" in header:
        return _take_focus(organisation, source, text, digest, by=by, now=now, **options)
    try:
        rows = list(csv.DictReader(io.StringIO(text), strict=True, restkey="too many cells"))
    except csv.Error as fault:
        raise InvalidInput([Finding("file", "bad_csv", f"this is no CSV: {fault}")]) from None
    return take(
        organisation=organisation, source=source, rows=rows, by=by, now=now, format="csv", first_row=2, digest=digest, **options
    )  # fmt: skip


def _take_focus(
    organisation: Organisation, source: str, text: str, digest: str, *, by: str, now: datetime, **options: Any
) -> UsageImport:
    problems = focus_check.check(text)
    if problems:
        raise InvalidInput(
            [
                Finding(f"row {problem.row}.{problem.column}", problem.rule, problem.message, line=problem.row)
                for problem in problems[:MOST_FINDINGS]
            ],
            f"{len(problems)} faults in this FOCUS file; the first: {problems[0]}",
        )
    read = focus.read(text)
    rows, numbers, findings = rules.of_focus(read)
    if findings:
        raise InvalidInput(findings[:MOST_FINDINGS])
    return take(
        organisation=organisation,
        source=source,
        rows=rows,
        by=by,
        now=now,
        format="focus",
        digest=digest,
        skipped=len(read) - len(rows),
        numbers=numbers,
        **options,
    )


def _record(facts: Sequence[UsageFact], now: datetime) -> list[Recorded]:
    """Imports pass the time of their own records (a month at a time), so that old usage is not quarantined for its age."""
    answers: dict[tuple[str, str, int], Recorded] = {}
    ordered = sorted(facts, key=lambda fact: fact.ended_at)
    for _, batch in groupby(ordered, key=lambda fact: f"{fact.ended_at:%Y-%m}"):
        mine = list(batch)
        said = usage.record_many(facts=mine, now=min(now, mine[-1].ended_at))
        answers |= {fact.key: answer for fact, answer in zip(mine, said, strict=True)}
    return [answers[fact.key] for fact in facts]


def _projects(organisation: Organisation) -> dict[str, Project]:
    found: dict[str, Project] = {}
    for row in ProjectRow.objects.filter(organisation=organisation):
        project = Project(row.public_id, row.name, row.department)
        found |= {row.slug: project, row.public_id: project}
    return found


def _digest(rows: Sequence[Mapping[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(list(rows), sort_keys=True, default=str).encode()).hexdigest()


def _log(
    organisation: Organisation,
    source: str,
    format: str,
    digest: str,
    facts: Sequence[UsageFact],
    answers: Sequence[Recorded],
    skipped: int,
    by: str,
    now: datetime,
) -> UsageImport:
    count = {answer: sum(said.answer is answer for said in answers) for answer in Answer}
    made = UsageImport.objects.create(
        organisation=organisation,
        source=source,
        format=format,
        sha256=digest,
        rows=len(facts),
        stored=count[Answer.STORED],
        duplicates=count[Answer.DUPLICATE],
        conflicts=count[Answer.CONFLICT],
        quarantined=count[Answer.QUARANTINED] + count[Answer.REJECTED_STALE],
        skipped=skipped,
        created_by=by,
        created_at=now,
    )
    note(
        actor=by,
        deed="usage.import",
        target=made.public_id,
        organisation_id=organisation.id,
        data={"source": source, "rows": len(facts), "stored": made.stored, "sha256": digest},
        now=now,
    )
    return made
