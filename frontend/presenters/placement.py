"""Quotes and decisions in words: the front as a table, why this point, why not the others."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from frontend.presenters import figures, words
from frontend.presenters.jobs import counted, help_text, reason_text
from portal.kit.money import parse_micro
from scheduling.domain.quote import difference

ROLES = {
    "cheapest": gettext_lazy("cheapest"),
    "fastest": gettext_lazy("fastest"),
    "greenest": gettext_lazy("greenest"),
    "least_transfer": gettext_lazy("least transfer"),
    "choice": gettext_lazy("recommended"),
}
WHY = {
    "only_point": gettext_lazy("No other placement that fits is better in anything."),
    "pick_knee": gettext_lazy(
        "Recommended is the best compromise: getting better in one thing would cost more in the others."
    ),
    "pick_weights": gettext_lazy("Recommended is the best by your weights."),
    "pick_cheapest": gettext_lazy("Recommended is the cheapest."),
    "pick_fastest": gettext_lazy("Recommended is the fastest."),
    "pick_greenest": gettext_lazy("Recommended is the greenest."),
}
PICKED = {
    "only_point": gettext_lazy("No other node that fitted was better in anything."),
    "pick_knee": gettext_lazy(
        "It was the best compromise: getting better in one thing would have cost more in the others."
    ),
    "pick_weights": gettext_lazy("It was the best by your weights."),
    "pick_cheapest": gettext_lazy("It was the cheapest."),
    "pick_fastest": gettext_lazy("It was the fastest."),
    "pick_greenest": gettext_lazy("It was the greenest."),
}


def role(name: str) -> str:
    return str(ROLES.get(name, name))


# --- a quote -------------------------------------------------------------------------------------------------------------
def quote(found: Any) -> dict[str, Any]:
    """A quote as the page shows it."""
    points = [point(row, found.pick) | {"position": place} for place, row in enumerate(found.points)]
    chosen = next((row for row in points if row["picked"]), points[0] if points else None)
    return {
        "public_id": found.public_id,
        "expires_at": found.expires_at,
        "points": points,
        "sentence": sentence(found.reason.get("why", {}), found.currency, WHY),
        "helps": [help_text(one) for one in found.reason.get("helps", [])],
        "warnings": found.reason.get("warnings", []),
        "foreseen": foreseen(found),
        "seen": seen(found.seen),
        "refused": refusals(found.refused),
        "note": front_note(len(points)) if points else "",
        "cap": figures.rounded_up(found.points[chosen["position"]]["high_micro"], found.currency) if chosen else None,
    }


EVIDENCE = {
    "program": gettext_lazy("because of the program %(found)s"),
    "flag": gettext_lazy("because of the option %(found)s"),
    "word": gettext_lazy("because of the name %(found)s"),
    "image": gettext_lazy("because of the image %(found)s"),
    "history": gettext_lazy("as in earlier runs of this name"),
    "none": gettext_lazy("nothing in the command tells more"),
}
CONFIDENCE = {
    "high": gettext_lazy("they agree well"),
    "medium": gettext_lazy("they agree roughly"),
    "low": gettext_lazy("few, or far apart"),
}


def foreseen(found: Any) -> list[str]:
    """What the platform guessed or filled in, a sentence each."""
    said = (
        kind_text(found.reason.get("task_type")),
        run_time_text(found.reason.get("run_time")),
        preset_text(found.spec.get("placement") or {}),
    )
    return [sentence for sentence in said if sentence]


def kind_text(guess: Mapping[str, Any] | None) -> str:
    """What kind of work the platform takes it for, and why; nothing where its author said so."""
    if not guess:
        return ""
    why = str(EVIDENCE.get(guess["evidence"], "")) % {"found": f"“{guess['found']}”"}
    return _("Taken for %(kind)s, %(why)s. Choose another kind of work if that is wrong.") % {
        "kind": words.word("task_type", guess["kind"]).text,
        "why": why,
    }


def run_time_text(told: Mapping[str, Any] | None) -> str:
    """How long it will run by what ran before, and how sure that is."""
    if not told:
        return ""
    if told["seconds"] is None:
        return _("How long it runs is not known: nothing like it ran in this project. Counted with %(most)s.") % {
            "most": figures.duration(told["assumed_s"])
        }
    return ngettext(
        "Run time from %(n)s earlier run: %(low)s to %(high)s (%(sure)s).",
        "Run time from %(n)s earlier runs: %(low)s to %(high)s (%(sure)s).",
        told["runs"],
    ) % {
        "n": told["runs"],
        "low": figures.duration(told["low_s"]),
        "high": figures.duration(told["high_s"]),
        "sure": CONFIDENCE.get(told["confidence"], ""),
    }


def preset_text(placement: Mapping[str, Any]) -> str:
    """A preset, expanded: the fields that decide, as they stand."""
    if not placement.get("preset"):
        return ""
    shown = [f"pick {placement.get('pick')}", "optimize " + " ".join(placement.get("optimize", ()))]
    shown += [f"{name} {share}" for name, share in (placement.get("weights") or {}).items()]
    if placement.get("max_latency_ms"):
        shown.append(f"max_latency_ms {placement['max_latency_ms']}")
    if placement.get("regions"):
        shown.append("regions " + " ".join(placement["regions"]))
    return _("Preset %(name)s: %(fields)s.") % {
        "name": words.word("preset", placement["preset"]).text,
        "fields": ", ".join(shown),
    }


def point(row: Mapping[str, Any], pick: int | None) -> dict[str, Any]:
    """One point of the front."""
    code = row["currency"]
    return {
        "index": row["index"],
        "picked": row["index"] == pick,
        "node": row["name"],
        "region": row["region"],
        "zone": row["zone"],
        "provider": row.get("provider_name", ""),
        "low": figures.estimate(parse_micro(row["cost"]["low"]), code),
        "expected": figures.estimate(row["expected_micro"], code),
        "high": figures.estimate(row["high_micro"], code),
        "finish": row["time_s"],
        "green_ppm": row["green_ppm"],
        "carbon": carbon_note(row.get("carbon") or {}),
        "transfer": figures.estimate(row["transfer_micro"], code) if row["transfer_micro"] else _("none"),
        "transfer_note": transfer_note(row.get("transfer", [])),
        "roles": [role(name) for name in row["roles"]],
        "virtual": row.get("virtual", False),
        "isolation": row.get("isolation", ""),
    }


def carbon_note(carbon: Mapping[str, Any]) -> str:
    """About 120 g CO₂; from 02:00 UTC 30 % less."""
    if carbon.get("grams") is None:
        return ""
    text = _("about %(grams)s g CO₂") % {"grams": figures.number(carbon["grams"])}
    later = carbon.get("greener_start")
    if later:
        values = {"at": str(later["at"])[11:16], "percent": figures.number(later["saved_percent"])}
        text += "; " + _("from %(at)s UTC %(percent)s %% less") % values
    return text


def transfer_note(lines: Sequence[Any]) -> str:
    """east → west, 4.00 GB."""
    texts = []
    for line in lines:
        if isinstance(line, Mapping):
            route = line.get("link") or f"{line.get('from', '')} → {line.get('to', '')}"
            texts.append(f"{route}, {figures.gigabytes(line.get('bytes', 0), 2)} GB")
    return "; ".join(texts)


def front_note(size: int) -> str:
    """What it means that the table has so few rows."""
    if size >= 3:
        return ""
    return ngettext(
        "Only %(n)s placement is worth choosing: every other one that fits is worse in everything.",
        "Only %(n)s placements are worth choosing: every other one that fits is worse in everything.",
        size,
    ) % {"n": size}


def sentence(reason: Mapping[str, Any], currency: str, table: Mapping[str, Any]) -> str:
    """Why this point, and what the best of each kind would have meant instead."""
    parts = [str(table.get(reason.get("code", ""), ""))]
    for name, other in (reason.get("against") or {}).items():
        changes = ", ".join(differences(other, currency))
        if changes:
            parts.append(
                _("The %(role)s, %(node)s: %(changes)s.")
                % {"role": role(name), "node": other["name"], "changes": changes}
            )
    return " ".join(part for part in parts if part)


def differences(other: Mapping[str, Any], currency: str) -> list[str]:
    """How another point differs from the chosen one, in figures."""
    found = []
    if other.get("cost_micro"):
        amount = figures.estimate(abs(other["cost_micro"]), currency)
        found.append(
            (_("%(amount)s dearer") if other["cost_micro"] > 0 else _("%(amount)s cheaper")) % {"amount": amount}
        )
    if other.get("time_s"):
        time = figures.duration(abs(other["time_s"]))
        found.append((_("%(time)s later") if other["time_s"] > 0 else _("%(time)s sooner")) % {"time": time})
    if other.get("green_ppm"):
        points = figures.number(abs(other["green_ppm"]) / 10_000)
        text = _("%(points)s points greener") if other["green_ppm"] > 0 else _("%(points)s points less green")
        found.append(text % {"points": points})
    return found


def seen(told: Any) -> str:
    """41 nodes in 6 regions were looked at."""
    tiers = (
        {row["tier"]: row for row in told if isinstance(row, Mapping)} if isinstance(told, list) else dict(told or {})
    )
    counts = {name: (row.get("seen", 0) if isinstance(row, Mapping) else row) for name, row in tiers.items()}
    amounts = [(name, counts.get(name, counts.get(f"{name}s"))) for name in ("region", "zone", "node")]
    return ", ".join(counted(name, amount) for name, amount in amounts if isinstance(amount, int))


def refusals(tiers: Any) -> list[dict[str, str]]:
    """Why others were left out, most first; one sentence a reason."""
    rows = []
    for tier in tiers or []:
        rows += tier.get("refused", []) if "refused" in tier else [tier]
    ordered = sorted(rows, key=lambda row: -int(row.get("nodes", row.get("count", 0))))
    return [{"text": reason_text(row)} for row in ordered if row.get("reason")]


# --- a decision ----------------------------------------------------------------------------------------------------------
def decision(found: Any, attempt: Any, job: Any) -> dict[str, Any]:
    """A stored decision: why here, why not there; with the front of the quote behind it, for jobs that had one."""
    points = job.quote.points if job.quote else ()
    chosen = found.choice or {}
    chosen = chosen.get("point", chosen)
    code = chosen.get("currency", "CNY")
    alternatives = [
        alternative(row, code) for row in [*(found.alternatives or []), *others(found.alternatives, chosen, points)]
    ]
    front = found.front or {}
    size = max(front.get("size", 0), len(alternatives) + 1)
    return {
        "public_id": found.public_id,
        "attempt": attempt.number,
        "node": chosen.get("name") or attempt.node.name,
        "at": found.decided_at,
        "sentence": why_here(found, chosen, job, code),
        "values": values(chosen, code),
        "seen": seen(found.seen) or figures.UNKNOWN,
        "policy": ", ".join(f"{name} {version}" for name, version in (found.versions or {}).items()),
        "alternatives": alternatives,
        "front_note": front_note(size) if size < 3 else "",
        "refused": refusals(found.refused),
    }


def why_here(found: Any, chosen: Mapping[str, Any], job: Any, code: str) -> str:
    """Of the point that was quoted: why it was recommended, or that somebody chose it. Else what the decision says."""
    quoted = job.quote.points[job.point] if job.quote and job.point is not None else None
    if quoted is None or quoted["node"] != chosen.get("node"):
        return sentence((found.choice or {}).get("why", {}), code, PICKED)
    if job.point == job.quote.pick:
        return sentence(job.quote.reason.get("why", {}), code, PICKED)
    return _("It was chosen among the points of the quote.")


def others(
    known: Sequence[Mapping[str, Any]] | None, chosen: Mapping[str, Any], points: Sequence[Mapping[str, Any]]
) -> list[Any]:
    """The quote's other points: also places that could have been chosen, as they stood then."""
    named = {row["node"] for row in known or []} | {chosen.get("node")}
    if "expected_micro" not in chosen:
        return []
    return [difference(dict(row), dict(chosen)) for row in points if row["node"] not in named]


def values(chosen: Mapping[str, Any], code: str) -> list[dict[str, str]]:
    """Cost, finish, green share, transfer of the chosen point."""
    if "expected_micro" not in chosen:
        return []
    return [
        {"name": str(words.word("objective", "cost").text), "text": figures.estimate(chosen["expected_micro"], code)},
        {"name": _("Finish after"), "text": figures.duration(chosen["time_s"])},
        {"name": str(words.word("objective", "green").text), "text": figures.percent(chosen["green_ppm"])},
        {
            "name": str(words.word("objective", "transfer").text),
            "text": figures.estimate(chosen["transfer_micro"], code) if chosen["transfer_micro"] else _("none"),
        },
    ]


def alternative(row: Mapping[str, Any], code: str) -> dict[str, str]:
    """Another point, as differences to the chosen one."""
    cost, time, green = row.get("cost_micro", 0), row.get("time_s", 0), row.get("green_ppm")
    return {
        "node": row["name"],
        "place": f"{row['region']}/{row['zone']} · {row.get('provider_name', '')}",
        "cost": signed(cost, figures.estimate(abs(cost), code)),
        "time": signed(time, figures.duration(abs(time))),
        "green": figures.UNKNOWN if green is None else signed(green, figures.percent(abs(green))),
    }


def signed(amount: int | float, text: str) -> str:
    if not amount:
        return "±0"
    return f"{'+' if amount > 0 else '−'}{text}"
