"""The vendor's own types, asked at run time: which parameters an address takes, and which keys an object has.

``params`` checks a decoded request against a ``stripe.params`` TypedDict: unknown and missing parameters are refused as the
service refuses them, and texts become the numbers and booleans that the types name. ``blank`` makes an object from the
annotations of a resource; ``faults`` says where an object differs from them. No list of fields is written down here.
"""

import sys
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin

import stripe
import typing_extensions
from stripe._request_options import RequestOptions
from typing_extensions import is_typeddict

OPTIONS = frozenset(RequestOptions.__annotations__)
"""How a call is made, not what it says; the typed dicts of the older style mix them in."""


class BadParameter(Exception):
    """A parameter that the vendor's types do not know, or lack."""

    def __init__(self, message: str, param: str, code: str) -> None:
        super().__init__(message)
        self.message, self.param, self.code = message, param, code


@cache
def _fields(shape: Any) -> dict[str, Any]:
    """Parameter → its type, without the options of a call."""
    names = dict(vars(sys.modules[shape.__module__])) | {"StripeContext": object, "ListObject": list}
    return {
        name: _plain(annotation, names) for name, annotation in shape.__annotations__.items() if name not in OPTIONS
    }


def _plain(annotation: Any, names: dict[str, Any]) -> Any:
    """Without NotRequired; forward references resolved at one level (deeper ones when they are met)."""
    if isinstance(annotation, str):
        annotation = ForwardRef(annotation)
    if isinstance(annotation, ForwardRef):
        scope = vars(typing) | vars(typing_extensions) | names
        annotation = eval(annotation.__forward_code__, scope)  # noqa: S307  # the vendor's own text
    if get_origin(annotation) in (typing_extensions.NotRequired, typing_extensions.Required):
        return _plain(get_args(annotation)[0], names)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return Union[tuple(_plain(part, names) for part in inner)]  # noqa: UP007  # built from parts
    if origin in (list, dict) and inner:
        return origin[tuple(_plain(part, names) for part in inner)]
    return annotation


def params(shape: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` in the types of `shape`; BadParameter names what is unknown or missing."""
    read = _read_dict(shape, given, "")
    missing = sorted(name for name in shape.__required_keys__ if name not in OPTIONS and name not in read)
    if missing:
        raise BadParameter(f"Missing required param: {missing[0]}.", missing[0], "parameter_missing")
    return read


def _read_dict(shape: Any, given: Mapping[str, Any], path: str) -> dict[str, Any]:
    known = _fields(shape)
    read = {}
    for name, value in given.items():
        where = f"{path}[{name}]" if path else name
        if name not in known:
            raise BadParameter(f"Received unknown parameter: {where}", where, "parameter_unknown")
        read[name] = _read(known[name], value, where)
    if path:
        for name in sorted(shape.__required_keys__ - OPTIONS):
            if name not in read:
                raise BadParameter(f"Missing required param: {path}[{name}].", f"{path}[{name}]", "parameter_missing")
    return read


def _read(wanted: Any, value: Any, path: str) -> Any:
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, types.UnionType):
        return _read_any(inner, value, path)
    if is_typeddict(wanted):
        if not isinstance(value, Mapping):
            raise BadParameter(f"Invalid object: {path}", path, "parameter_invalid_object")
        return _read_dict(wanted, value, path)
    if origin is list:
        rows = value if isinstance(value, list) else [value]
        return [_read(inner[0], row, f"{path}[{n}]") for n, row in enumerate(rows)]
    if origin is dict:
        if not isinstance(value, Mapping):
            raise BadParameter(f"Invalid object: {path}", path, "parameter_invalid_object")
        return {name: _read(inner[1], row, f"{path}[{name}]") for name, row in value.items()}
    if origin is Literal:
        if value not in inner:
            raise BadParameter(
                f"Invalid {path}: must be one of {', '.join(map(str, inner))}", path, "parameter_invalid"
            )
        return value
    return _read_scalar(wanted, value, path)


def _read_any(choices: tuple[Any, ...], value: Any, path: str) -> Any:
    """The first choice that takes it, plain text last; a text where a literal or a text would do may be any."""
    refusal: BadParameter | None = None
    ordered = sorted(choices, key=lambda choice: choice is str)
    for choice in ordered:
        if choice is type(None):
            continue
        try:
            return _read(choice, value, path)
        except BadParameter as problem:
            refusal = refusal or problem
    raise refusal or BadParameter(f"Invalid value: {path}", path, "parameter_invalid")


def _read_scalar(wanted: Any, value: Any, path: str) -> Any:
    if isinstance(value, Mapping | list):
        raise BadParameter(f"Invalid value: {path}", path, "parameter_invalid")
    if wanted is bool:
        if value not in ("true", "false"):
            raise BadParameter(f"Invalid boolean: {value}", path, "parameter_invalid_boolean")
        return value == "true"
    if wanted is int:
        if not str(value).lstrip("-").isdigit():
            raise BadParameter(f"Invalid integer: {value}", path, "parameter_invalid_integer")
        return int(value)
    return value


def _optional(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType) and type(None) in get_args(annotation)


@cache
def _keys(resource: Any) -> dict[str, Any]:
    return {
        name: annotation
        for name, annotation in resource.__annotations__.items()
        if name != "OBJECT_NAME" and get_origin(annotation) is not typing.ClassVar
    }


def blank(resource: Any) -> dict[str, Any]:
    """An object with every key of its type: null where that may be, else empty. ``deleted`` is a key of deleted ones only."""
    return {name: _empty(kind) for name, kind in _keys(resource).items() if name != "deleted"}


def _empty(kind: Any) -> Any:
    if _optional(kind):
        return None
    origin = get_origin(kind)
    if origin is Literal:
        return get_args(kind)[0]
    if origin is Union and get_origin(get_args(kind)[0]) is Literal:
        return get_args(get_args(kind)[0])[0]
    if origin is list:
        return []
    if kind in (int, str, bool):
        return kind()
    if getattr(origin or kind, "__name__", "") == "ListObject":
        return {"object": "list", "data": [], "has_more": False, "url": ""}
    return {}


def faults(resource: Any, made: Mapping[str, Any]) -> list[str]:
    """Where `made` differs from the vendor's type: keys it has not, keys that are missing, numbers and words of the wrong kind."""
    known = _keys(resource)
    found = [f"{name} is no key of {resource.__name__}" for name in made if name not in known]
    for name, kind in known.items():
        if name == "deleted" and name not in made:
            continue
        if name not in made:
            found.append(f"{name} is missing")
        elif made[name] is None:
            if not _optional(kind):
                found.append(f"{name} is null")
        elif not _fits(kind, made[name]):
            found.append(f"{name} is {made[name]!r}, not {kind}")
    return found


def _fits(kind: Any, value: Any) -> bool:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return any(_fits(part, value) for part in get_args(kind) if part is not type(None))
    if origin is Literal:
        return value in get_args(kind)
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is str:
        return isinstance(value, str)
    if origin is list:
        return isinstance(value, list)
    return isinstance(value, dict | list)  # another object, expanded


def resource(name: str) -> Any:
    """The class of an object's name: ``payment_intent``, ``checkout.session``."""
    return RESOURCES[name]


RESOURCES: dict[str, Any] = {
    kind.OBJECT_NAME: kind
    for kind in (
        stripe.Customer, stripe.PaymentMethod, stripe.SetupIntent, stripe.PaymentIntent, stripe.Charge, stripe.Refund, stripe.checkout.Session,
        stripe.Dispute, stripe.Account, stripe.AccountLink, stripe.Transfer, stripe.TransferReversal, stripe.Payout, stripe.Balance,
        stripe.BalanceTransaction, stripe.Event, stripe.WebhookEndpoint, stripe.billing_portal.Session,
    )
}  # fmt: skip
