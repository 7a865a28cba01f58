"""The power of a unit where nothing measures it."""

from marketplace.domain import power


def test_known_cards_and_cores_have_a_power_with_its_basis_others_none():
    assert power.of_unit("card", "A100-80GB") == (400_000, "nameplate")
    assert power.of_unit("core", "whatever") == (2_100, "coefficient")
    assert power.of_unit("card", "virtual") == (None, "")
    assert power.of_unit("memory_gib", "A100-80GB") == (None, "")
