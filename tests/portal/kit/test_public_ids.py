"""Public ids: shape, order, kinds."""

from datetime import UTC, datetime

import pytest

from portal import ids
from portal.kit.public_ids import compose, parse


def test_ids_sort_by_age() -> None:
    old = ids.public_id("job", at=datetime(2026, 1, 1, tzinfo=UTC))
    new = ids.public_id("job", at=datetime(2026, 1, 2, tzinfo=UTC))
    assert old < new
    assert len(old) == len("job_") + 26


def test_parse_gives_back_what_compose_made() -> None:
    text = compose("inv", 1_700_000_000_000, 5)
    assert parse("inv", text) == text


@pytest.mark.parametrize("text", ["", "job", "job_1", "inv_" + "0" * 26, "job_" + "0" * 25 + "I", "job_" + "0" * 27])
def test_malformed_ids_say_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected a job id"):
        parse("job", text)


@pytest.mark.parametrize(
    ("prefix", "when", "noise"), [("xyz", 0, 0), ("job", -1, 0), ("job", 1 << 48, 0), ("job", 0, 1 << 80)]
)
def test_compose_refuses_what_does_not_fit(prefix: str, when: int, noise: int) -> None:
    with pytest.raises(ValueError, match=r"prefix|range"):
        compose(prefix, when, noise)


def test_secrets_are_compared_by_digest() -> None:
    token = ids.token()
    assert len(token) == 32
    assert ids.same(ids.digest(token), ids.digest(token))
    assert not ids.same(ids.digest(token), ids.digest(ids.token()))
