"""What the vendor's rail takes of an amount: a table of its own, not our converter's, so that a mistake there is seen here."""

WITHOUT_DECIMALS = frozenset({"jpy", "krw", "vnd", "clp"})
THREE_DECIMALS = frozenset({"bhd", "jod", "kwd", "omr", "tnd"})
SMALLEST = {
    "usd": 50, "eur": 50, "gbp": 30, "hkd": 400, "sgd": 50, "jpy": 50, "cny": 400, "bhd": 200, "jod": 360, "kwd": 160, "omr": 200, "tnd": 1600,
}  # fmt: skip
"""About 0.50 US dollars; a currency that is not here is not taken."""
LARGEST = 99_999_999


def problem(amount: int, currency: str) -> tuple[str, str] | None:
    """(code, sentence) of what is wrong with a charge of `amount`; None if it can be taken."""
    code = currency.lower()
    if code != currency or code not in SMALLEST:
        return "parameter_invalid", f"Invalid currency: {currency}."
    if amount < SMALLEST[code]:
        return "amount_too_small", f"Amount must be at least {SMALLEST[code]} {code}."
    if amount > LARGEST:
        return "amount_too_large", f"Amount must be no more than {LARGEST} {code}."
    if code in THREE_DECIMALS and amount % 10:
        return "invalid_amount", f"Amounts in {code} must be a multiple of 10."
    return None


def words(amount: int, currency: str) -> str:
    """An amount as the hosted page shows it: ``EUR 166.89``."""
    places = 0 if currency in WITHOUT_DECIMALS else 3 if currency in THREE_DECIMALS else 2
    digits = str(amount).rjust(places + 1, "0")
    return f"{currency.upper()} {digits[:-places]}.{digits[-places:]}" if places else f"{currency.upper()} {digits}"


def fee(amount: int, fee_ppm: int, fixed: int) -> int:
    """What the vendor keeps of a charge."""
    return min(amount, amount * fee_ppm // 1_000_000 + fixed)
