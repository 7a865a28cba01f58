"""Does one unit say how fast a card will be, and which is worth its price?

    .venv/bin/python benchmarks/scu/run.py [--quick] [--json]

Measured throughputs of 26 training configurations on three cards; the unit and what it learns are the product's
(`marketplace.domain.scu`, `scheduling.domain.learning`). Needs the reference data; see README.md.
"""

import argparse
import csv
import gzip
import itertools
import json
import math
import os
import platform
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.scu.baseline import CARDS, PREDICTORS  # noqa: E402 the tree is not installed
from marketplace.domain.scu import Profile, Sums, scu  # noqa: E402
from scheduling.domain.learning import Known, learn, terms  # noqa: E402

NOISE = 0.1
SEEDS, QUICK_SEEDS = (11, 12, 13, 14, 15), (11,)
ATTEMPTS = (1, 5, 20)
FAMILY = re.compile(r"\('([^ ('\"]+)")
MODERN = {
    # TFLOPS FP16 dense, TB/s: the card table of the design, and the makers' figures for the two that it lacks
    "NVIDIA H100-SXM5-80GB": (989.0, 3.35),
    "NVIDIA H200-SXM5-141GB": (989.0, 4.8),
    "NVIDIA H100-PCIe-80GB": (756.0, 2.0),
    "NVIDIA L40S": (362.0, 0.864),
    "NVIDIA GeForce RTX 4090": (165.0, 1.008),
    "AMD Radeon RX 7900 XTX": (122.8, 0.96),
}
REFERENCE = "NVIDIA H100-SXM5-80GB"


class Missing(Exception):
    """The reference data is not here."""


def folder() -> Path:
    named = os.environ.get("IDLEWILD_REFERENCE_DIR")
    base = Path(named) if named else ROOT.parent / "shared" / "data"
    if not (base / "fingerprints").is_dir():
        raise Missing(f"reference data is not here: {base} (set IDLEWILD_REFERENCE_DIR)")
    return base


Rates = dict[str, dict[str, float]]


def measured(base: Path) -> Rates:
    """Configuration → card → samples per second, alone on one card."""
    with gzip.open(base / "fingerprints/gavel_simulation_throughputs.json.gz", "rt") as file:
        data = json.load(file)
    names = [name for name in data["v100"] if name.endswith(", 1)")]
    return {name: {card: float(data[card][name]["null"]) for card in CARDS} for name in names}


def family(name: str) -> str:
    found = FAMILY.match(name)
    return found.group(1) if found else name


def unit(card: str) -> float:
    """SCU of a card whose compute was measured in FP32, as these were: the weights of `custom`."""
    fp32, _fp16, bandwidth, _price = CARDS[card]
    return scu(Profile(fp32, bandwidth / 1_000.0), "custom") or 0.0


def errors(rates: Rates, predict: Callable[[str, str], float]) -> float:
    """Median error of predicted ratios between cards, in %."""
    off = [
        abs(predict(name, b) / predict(name, a) / (speeds[b] / speeds[a]) - 1)
        for name, speeds in rates.items()
        for a, b in itertools.combinations(CARDS, 2)
    ]
    return 100 * float(np.median(off))


def regret(rates: Rates, predict: Callable[[str, str], float]) -> tuple[float, float]:
    """Throughput per $ of the best card over that of the chosen one: (mean, worst)."""
    found = []
    for name, speeds in rates.items():
        chosen = max(CARDS, key=lambda card: predict(name, card) / CARDS[card][3])
        best = max(speeds[card] / CARDS[card][3] for card in CARDS)
        found.append(best / (speeds[chosen] / CARDS[chosen][3]))
    return float(np.mean(found)), max(found)


def learned(rates: Rates, attempts: int, seed: int, *, kinds: Callable[[str], str], alone: bool) -> Rates:
    """Configuration → card → SCU × exp(H) after `attempts` attempts of each *other* configuration of its kind on each card.

    `alone`: a kind with one configuration learns from that one; else it stays cold.
    """
    out: Rates = {}
    for tested in rates:
        draw = random.Random(f"{seed}/{tested}")
        others = [name for name in rates if kinds(name) == kinds(tested) and name != tested]
        others = others or ([tested] if alone else [])
        hardware = dict.fromkeys(CARDS, Sums())
        names: dict[str, dict[str, Sums]] = {name: {} for name in others}
        for _ in range(attempts):
            for name, card in itertools.product(others, CARDS):
                y = math.log(rates[name][card]) - math.log(unit(card)) + draw.gauss(0, NOISE)
                made = learn(y, hardware_type=card, known=Known(names[name], hardware[card]))
                names[name][card], hardware[card] = made.name, made.hardware
        out[tested] = {card: unit(card) * math.exp(terms(hardware[card], Sums())[0]) for card in CARDS}
    return out


def modern(base: Path) -> dict[str, Any]:
    """Cards of 2022 to 2024, cold: speed per card against an H100 SXM on the same benchmark, predicted and as derived."""
    times: dict[tuple[str, str, int], list[float]] = {}
    with open(base / "fingerprints/mlperf_training_v4.0_time_to_train.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["nodes"] == "1" and row["division"] == "closed" and row["accelerator"] in MODERN:
                key = row["accelerator"], row["benchmark"], int(row["accelerators_per_node"])
                times.setdefault(key, []).append(float(row["median_minutes"]))
    shown, off = {}, []
    for (card, task, count), minutes in sorted(times.items()):
        like = [(n, float(np.median(m))) for (c, t, n), m in times.items() if c == REFERENCE and t == task and n <= 8]
        if card == REFERENCE or not like:
            continue
        cards, reference = min(like, key=lambda pair: abs(pair[0] - count))
        ratio = (reference * cards) / (float(np.median(minutes)) * count)
        guess = _training(card) / _training(REFERENCE)
        off.append(abs(guess / ratio - 1))
        shown[f"{card} × {count}, {task}"] = {"derived": round(ratio, 3), "SCU": round(guess, 3)}
    return {"rows": shown, "median error %": round(100 * float(np.median(off)), 1), "count": len(off)}


def _training(card: str) -> float:
    compute, memory = MODERN[card]
    return scu(Profile(compute, memory, 1.25), "training") or 0.0


def measure(quick: bool, say: Callable[[str], object]) -> dict[str, Any]:
    base = folder()
    rates = measured(base)
    suffix = ".quick" if quick else ""
    table: dict[str, Any] = {}
    for label, of_card in [*PREDICTORS.items(), ("SCU, cold", unit)]:
        table[label] = _row(rates, [lambda _name, card, rule=of_card: rule(card)])  # type: ignore[misc]
        say(f"{label:<34} {table[label]}")
    figures = {}
    for attempts in ATTEMPTS:
        label = f"SCU after {attempts} attempts"
        made = [learned(rates, attempts, s, kinds=family, alone=True) for s in (QUICK_SEEDS if quick else SEEDS)]
        figures[attempts] = table[label] = _row(rates, [lambda n, c, t=one: t[n][c] for one in made])  # type: ignore[misc]
        say(f"{label:<34} {table[label]}")
    for label, kinds, alone in (
        ("… kinds of one configuration cold", family, False),
        ("… all families one kind", lambda _name: "training", True),
    ):
        made = [learned(rates, ATTEMPTS[-1], SEEDS[0], kinds=kinds, alone=alone)]
        table[label] = _row(rates, [lambda n, c, t=one: t[n][c] for one in made])  # type: ignore[misc]
        say(f"{label:<34} {table[label]}")
    best = figures[ATTEMPTS[-1]]
    claims = [
        claim(
            f"scu.error{suffix}", "median error of predicted ratios after 20 attempts", best["error %"], "%", "<= 15"
        ),
        claim(f"scu.regret{suffix}", "mean regret of choosing by SCU per price", best["regret"], "×", "<= 1.02"),
        claim(
            f"scu.cold{suffix}",
            "cold: error of the plain product ÷ error of SCU",
            table["FP16 × bandwidth"]["error %"] / table["SCU, cold"]["error %"],
            "×",
            ">= 10",
        ),
    ]
    return {
        "claims": claims,
        "baselines": {"three cards, 26 configurations": table, "newer cards, cold": modern(base)},
        "seed": list(QUICK_SEEDS if quick else SEEDS),
        "commit": commit(),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(terse=True),
            "python": platform.python_version(),
        },
    }


def _row(rates: Rates, rules: Sequence[Callable[[str, str], float]]) -> dict[str, float]:
    """Error and regret, the mean over `rules` (one per seed); the worst regret of all."""
    found = [regret(rates, rule) for rule in rules]
    return {
        "error %": round(float(np.mean([errors(rates, rule) for rule in rules])), 1),
        "regret": round(float(np.mean([mean for mean, _ in found])), 3),
        "worst regret": round(max(worst for _, worst in found), 2),
    }


def claim(name: str, what: str, value: float, unit_name: str, target: str) -> dict[str, Any]:
    sign, _, limit = target.partition(" ")
    ok = value <= float(limit) if sign == "<=" else value >= float(limit)
    return {"id": name, "what": what, "value": round(value, 3), "unit": unit_name, "target": target, "ok": bool(ok)}


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="one seed instead of five; own claim ids")
    parser.add_argument("--json", action="store_true", help="print the result as JSON only")
    given = parser.parse_args(words)
    try:
        result = measure(given.quick, (lambda _: None) if given.json else print)
    except Missing as missing:
        sys.stderr.write(f"{missing}\n")
        return 2
    if given.json:
        print(json.dumps(result, indent=1, ensure_ascii=False))
    else:
        print(json.dumps(result["baselines"]["newer cards, cold"], indent=1, ensure_ascii=False))
        for one in result["claims"]:
            print(
                f"{'ok ' if one['ok'] else 'NO '} {one['what']}: {one['value']} {one['unit']} (target {one['target']})"
            )
    return 0 if all(one["ok"] for one in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
