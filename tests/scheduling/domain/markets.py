"""Small and random markets for the tests of placement."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scheduling.domain import choice, filters, objectives
from scheduling.domain.columns import Row, Table, build
from scheduling.domain.demand import Card
from scheduling.domain.request import Path, Paths, Policy, Request
from scheduling.domain.search import Problem

NOW = 1_793_600_000
REGIONS = ("east", "north", "west")


def a_row(node: str = "n1", **fields: Any) -> Row:
    """A plain listed node: 8 cores at 0.05, 16 GiB, 100 GiB, no card."""
    usual: dict[str, Any] = {
        "node": node, "offer": f"o-{node}", "name": node, "region": "east", "zone": "a", "provider": "p1", "currency": "CNY",
        "core_fixed": 50_000, "core_spot": 20_000, "cores_milli": 8_000, "memory_mib": 16_384, "disk_gib": 100,
        "total_cores_milli": 8_000, "total_memory_mib": 16_384, "total_disk_gib": 100, "scu_cpu": {"custom": 0.01}, "green_ppm": 500_000,
        "verified": True,
    }  # fmt: skip
    return Row(**{**usual, **fields})


def a_card_row(node: str = "g1", model: str = "A100-80GB", cards: int = 2, **fields: Any) -> Row:
    """A node with cards at 4.00."""
    usual = {
        "card_model": model, "cards": cards, "total_cards": cards, "card_memory_mib": 81_920, "card_fixed": 4_000_000, "card_spot": 2_000_000,
        "scu_card": {"custom": 1.0},
    }  # fmt: skip
    return a_row(node, **{**usual, **fields})


def a_request(**fields: Any) -> Request:
    usual: dict[str, Any] = {
        "task_type": "custom", "cores_milli": 1_000, "memory_mib": 1_024, "disk_gib": 1, "cards": (), "rental": "fixed", "currency": "CNY",
        "max_duration_s": 3_600, "now": NOW,
    }  # fmt: skip
    return Request(**{**usual, **fields})


def paths() -> Paths:
    """Every pair of the three regions: farther is dearer and slower."""
    links = {}
    for i, a in enumerate(REGIONS):
        for j, b in enumerate(REGIONS):
            if i != j:
                links[a, b] = Path(
                    rtt_us=abs(i - j) * 20_000, mbps=1_000 // abs(i - j), price_micro_per_gb=10_000 * abs(i - j)
                )
    return Paths(links)


def a_market(seed: int, size: int = 60, *, free: bool = False) -> list[Row]:
    """A random market of three regions and five zones; few distinct values, so that ties and duplicates occur."""
    chance = random.Random(seed)
    rows = []
    for i in range(size):
        region, zone = chance.choice(REGIONS), chance.choice("ab")
        cards = chance.choice((0, 0, 2, 4))
        rows.append(
            a_row(
                f"n{i:04d}", region=region, zone=zone, provider=f"p{i % 7}",
                core_fixed=chance.choice((0,) if free and i % 9 == 0 else (20_000, 50_000, 50_000, 80_000, 123_457)),
                core_spot=chance.choice((None, 10_000, 30_000)),
                cores_milli=chance.choice((500, 2_000, 8_000)), memory_mib=chance.choice((512, 4_096, 16_384)),
                scu_cpu={"custom": chance.choice((0.01, 0.02, 0.02, 0.05))} if chance.random() < 0.9 else {},
                green_ppm=chance.choice((None, 100_000, 500_000, 900_000)),
                queue_s=chance.choice((0, 0, 30)), verified=chance.random() < 0.95, open_now=chance.random() < 0.95,
                alive=chance.choice(("alive",) * 9 + ("suspect",)), takes_work=chance.random() < 0.97,
                cards=cards, total_cards=cards, card_model=chance.choice(("A100-80GB", "H100")) if cards else "",
                card_memory_mib=81_920 if cards else 0, card_fixed=chance.choice((3_000_000, 4_000_000)) if cards else None,
                card_spot=None, scu_card={"custom": chance.choice((1.0, 2.0))} if cards else {},
            )
        )  # fmt: skip
    return rows


def a_wish(seed: int) -> tuple[Request, Policy]:
    """A random request and policy."""
    chance = random.Random(seed)
    request = a_request(
        cores_milli=chance.choice((100, 1_000, 2_000)), memory_mib=chance.choice((256, 2_048)),
        work_micro=chance.choice((None, 10_000, 50_000)), rental=chance.choice(("fixed", "fixed", "spot")),
        data=chance.choice(((), (("east", 5 * 10**9),), (("east", 10**9), ("west", 10**10)))),
        cards=chance.choice(((), (), (Card("H100", 2), Card("A100-80GB", 4)))),
        min_green_ppm=chance.choice((0, 0, 500_000)), max_price_micro=chance.choice((None, None, 60_000, 20_000_000)),
        regions=chance.choice(((), (), ("east", "west"))), avoid=chance.choice(((), ("north",), ("provider:p1",))),
    )  # fmt: skip
    pick = chance.choice(("weights", "cheapest", "fastest", "greenest", "knee"))
    weights = (
        {"cost": chance.choice((0.0, 0.5)), "time": 0.3, "green": chance.choice((0.0, 0.2))}
        if pick == "weights"
        else {}
    )
    optimize = chance.choice((("cost", "time", "green", "transfer"), ("cost", "time"), ("time", "cost", "green")))
    return request, Policy(optimize, pick, weights)


def brute_force(request: Request, policy: Policy, table: Table, links: Paths) -> tuple[list[int], list[int]]:
    """(all rows on the front, rows in the order of the key), by plain loops over vectors: the slow truth."""
    problem = Problem(request, policy, table, links)
    rows = problem.feasible(slice(0, len(table)))
    vectors = problem.vectors(rows)
    listed = [tuple(v) for v in vectors]
    front = [
        i for i, v in enumerate(listed)
        if not any(all(a <= b for a, b in zip(u, v, strict=True)) and u != v for u in listed)
    ]  # fmt: skip
    if policy.pick == "knee":
        values = np.full(len(rows), np.inf)
        if front:
            best = vectors[front]
            logs = np.log(best + problem.floor)
            low, high = logs.min(axis=0), logs.max(axis=0)
            told = high > low
            values[front] = ((logs[:, told] - low[told]) / (high - low)[told]).sum(axis=1)
    else:
        values = problem.score(vectors)
    packed = choice.packing(request, table, rows)
    keys = [
        (round(float(values[i]), 9), listed[i], int(packed[i]), table.rows[int(rows[i])].node) for i in range(len(rows))
    ]
    ordered = sorted(range(len(rows)), key=keys.__getitem__)
    return [int(rows[i]) for i in front], [int(rows[i]) for i in ordered]


def vector_of(request: Request, policy: Policy, rows: Sequence[Row], node: str) -> tuple[float, ...]:
    """The objective vector of one node."""
    table = build(rows)
    regions = filters.Regions(request, table, paths())
    index = next(i for i, row in enumerate(table.rows) if row.node == node)
    columns = objectives.columns_of(policy)
    return tuple(objectives.vectors(request, table, regions, np.array([index]), columns)[0])


def dearer(row: Row, node: str) -> Row:
    """A copy that is worse in price, power, waiting and greenness."""
    return replace(
        row, node=node, offer=f"o-{node}", name=node, core_fixed=(row.core_fixed or 0) + 70_000,
        core_spot=None if row.core_spot is None else row.core_spot + 70_000,
        card_fixed=None if row.card_fixed is None else row.card_fixed + 10**6,
        scu_cpu={k: v / 2 for k, v in row.scu_cpu.items()}, scu_card={k: v / 2 for k, v in row.scu_card.items()},
        queue_s=row.queue_s + 60, green_ppm=max(0, (row.green_ppm or 0) - 50_000),
    )  # fmt: skip
