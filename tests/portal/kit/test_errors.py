"""The error tree: one status and code a class."""

from portal.kit import errors


def _tree(cls: type[errors.IdlewildError]) -> list[type[errors.IdlewildError]]:
    """This module's own: a business may narrow an error, and is loaded or not as the run will have it."""
    own = [sub for sub in cls.__subclasses__() if sub.__module__ == errors.__name__]
    return [cls, *(leaf for sub in own for leaf in _tree(sub))]


def test_every_error_is_drawn_in_the_docstring_with_code_and_status() -> None:
    drawing = errors.__doc__ or ""
    for cls in _tree(errors.IdlewildError)[1:]:
        line = next(line for line in drawing.splitlines() if f" {cls.__name__} " in line)
        assert f" {cls.code} " in line
        assert f" {cls.status} " in line.replace("\n", " ") + " "


def test_invalid_input_carries_at_most_a_hundred_findings() -> None:
    error = errors.InvalidInput([errors.Finding(f"a.{i}", "bad", "is wrong") for i in range(150)])
    assert len(error.errors) == 100
    assert error.status == 422
    assert "a.0: is wrong" in error.detail


def test_a_raiser_may_narrow_the_code() -> None:
    error = errors.Conflict("make a new quote", code="quote_expired", quote="quo_1")
    assert (error.code, error.status, error.extra) == ("quote_expired", 409, {"quote": "quo_1"})
