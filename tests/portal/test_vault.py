"""Secrets at rest: readable only with the key and for the thing they belong to."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from portal import vault

OLD, NEW = "k1:" + "o" * 40, "k2:" + "n" * 40


def test_what_goes_in_comes_out() -> None:
    stored = vault.encrypt("hunter2 ✓", about="secret:org_1:TOKEN")
    assert "hunter2" not in stored
    assert vault.decrypt(stored, about="secret:org_1:TOKEN") == "hunter2 ✓"


def test_the_same_text_twice_looks_different() -> None:
    assert vault.encrypt("a", about="x") != vault.encrypt("a", about="x")


def test_it_does_not_open_for_another_thing() -> None:
    with pytest.raises(vault.Unreadable):
        vault.decrypt(vault.encrypt("a", about="secret:org_1:TOKEN"), about="secret:org_2:TOKEN")


@pytest.mark.parametrize("stored", ["", "t1:", "t1:!!!", "t1:AAAA", "gone:AAAA", "plain text"])
def test_what_is_not_ours_does_not_open(stored: str) -> None:
    with pytest.raises(vault.Unreadable):
        vault.decrypt(stored, about="x")


def test_a_changed_byte_is_noticed() -> None:
    stored = vault.encrypt("a", about="x")
    changed = stored[:-3] + ("A" if stored[-3] != "A" else "B") + stored[-2:]
    with pytest.raises(vault.Unreadable):
        vault.decrypt(changed, about="x")


def test_keys_rotate(settings: pytest.FixtureRequest) -> None:
    settings.IDLEWILD_VAULT_KEYS = OLD
    stored = vault.encrypt("a", about="x")
    settings.IDLEWILD_VAULT_KEYS = f"{NEW},{OLD}"
    assert not vault.is_current(stored)
    turned = vault.rotate(stored, about="x")
    assert vault.rotate(turned, about="x") == turned
    settings.IDLEWILD_VAULT_KEYS = NEW
    assert vault.decrypt(turned, about="x") == "a"
    with pytest.raises(vault.Unreadable, match="k1"):
        vault.decrypt(stored, about="x")


@pytest.mark.parametrize("keys", ["", "nokey", "k1:short", ":" + "x" * 40])
def test_weak_or_nameless_keys_are_refused(settings: pytest.FixtureRequest, keys: str) -> None:
    settings.IDLEWILD_VAULT_KEYS = keys
    with pytest.raises(ImproperlyConfigured, match="IDLEWILD_VAULT_KEYS"):
        vault.encrypt("a", about="x")
