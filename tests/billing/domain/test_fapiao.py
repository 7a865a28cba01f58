"""The record of a fapiao: its code, its capital amount, its life."""

import itertools

import pytest

from billing.domain import fapiao
from billing.domain.fapiao import FapiaoEvent, FapiaoState
from portal.kit.errors import InvalidTransition


def test_a_social_credit_code_is_checked():
    assert fapiao.check_code("91110000600037341l") == "91110000600037341L"
    for wrong in ("91110000600037341M", "9111", "91110000600037341I"):
        with pytest.raises(ValueError, match="social credit code"):
            fapiao.check_code(wrong)


@pytest.mark.parametrize(
    ("minor", "text"),
    [
        (0, "零元整"),
        (53059, "伍佰叁拾元伍角玖分"),
        (100, "壹元整"),
        (7, "柒分"),
        (50, "伍角整"),
        (10_005, "壹佰元零伍分"),
        (100_500, "壹仟零伍元整"),
        (1_000_000_00, "壹佰万元整"),
        (10_010_000_00, "壹仟零壹万元整"),
        (100_000_001_00, "壹亿零壹元整"),
        (12_034_567_890_12, "壹佰贰拾亿叁仟肆佰伍拾陆万柒仟捌佰玖拾元壹角贰分"),
        (1_0001_0000_00, "壹亿零壹万元整"),
        (2_0010_0300_40, "贰亿零壹拾万零叁佰元肆角整"),
        (-250, "负贰元伍角整"),
    ],
)
def test_an_amount_in_capital_numerals(minor, text):
    assert fapiao.capital(minor) == text


def test_an_amount_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match="more than"):
        fapiao.capital(10**18)


def test_every_pair_of_state_and_event():
    for pair in itertools.product(FapiaoState, FapiaoEvent):
        if pair in fapiao.TABLE:
            assert fapiao.advance(*pair) == fapiao.TABLE[pair][0]
        else:
            with pytest.raises(InvalidTransition):
                fapiao.advance(*pair)
