"""The kernels as loops over numbers: what a backend compiles. As plain Python they give the same answers, slowly.

Only whole-array arguments and numbers, no Python objects, no NumPy functions: so each body is what a compiler reads, and a
test can run it uncompiled. A body that calls another names it; the backend compiles the callee first.
"""

from typing import Any

Column = Any


def freshen(
    group: int,
    start: int,
    stop: int,
    cores: Column,
    memory: Column,
    disk: Column,
    cards: Column,
    queue: Column,
    most_cores: Column,
    most_memory: Column,
    most_disk: Column,
    most_cards: Column,
    least_queue: Column,
) -> None:
    """Free capacity and waiting time of one group, from its members."""
    best_cores, best_memory, best_disk = cores[start], memory[start], disk[start]
    best_cards, best_queue = cards[start], queue[start]
    for member in range(start + 1, stop):
        best_cores = max(best_cores, cores[member])
        best_memory = max(best_memory, memory[member])
        best_disk = max(best_disk, disk[member])
        best_cards = max(best_cards, cards[member])
        best_queue = min(best_queue, queue[member])
    most_cores[group], most_memory[group], most_disk[group] = best_cores, best_memory, best_disk
    most_cards[group], least_queue[group] = best_cards, best_queue


def dominates(points: Column, one: int, vectors: Column, other: int) -> bool:
    """Is point `one` nowhere worse than vector `other` and somewhere better?"""
    better = False
    for column in range(vectors.shape[1]):
        mine, theirs = points[one, column], vectors[other, column]
        if mine > theirs:
            return False
        if mine < theirs:
            better = True
    return better


def worse_than(vectors: Column, points: Column, order: Column, worse: Column) -> None:
    """Mark those of `vectors` that some point dominates. A point that dominates is tried earlier next time: `order`, the
    numbers of the points, is changed.
    """
    for other in range(vectors.shape[0]):
        for place in range(order.shape[0]):
            one = order[place]
            if dominates(points, one, vectors, other):
                worse[other] = True
                sooner = place // 2
                order[place], order[sooner] = order[sooner], one
                break


def filtered(vectors: Column, order: Column, found: Column) -> int:
    """Go through `vectors` in `order` and keep what nothing kept so far dominates: their numbers in `found`, how many is
    returned. Kept points that dominate move forward, so `found` is in no order.
    """
    size = 0
    for other in order:
        dominated = False
        for place in range(size):
            one = found[place]
            if dominates(vectors, one, vectors, other):
                dominated = True
                sooner = place // 2
                found[place], found[sooner] = found[sooner], one
                break
        if not dominated:
            found[size] = other
            size += 1
    return size
