"""A newcomer: a person and the organisation they begin with, in one transaction."""

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from portal.accounts.models import Organisation, User
from portal.accounts.services import organisations, shapes
from portal.audit.services import note
from portal.kit.errors import Finding, InvalidInput


@dataclass(frozen=True)
class SignedUp:
    user: User
    organisation: Organisation


def sign_up(
    *,
    email: str,
    password: str,
    organisation_name: str,
    currency: str,
    period_timezone: str = "UTC",
    name: str = "",
    language: str = "",
    slug: str = "",
    now: datetime,
) -> SignedUp:
    """Every fault of the form at once (422), else a user who owns a new organisation."""
    user = User(email=email.strip().lower(), name=name.strip(), language=language)
    shapes.refuse(
        [
            _email(user.email),
            *_password(password, user),
            shapes.name("organisation_name", organisation_name),
            shapes.currency("currency", currency),
            shapes.time_zone("period_timezone", period_timezone),
        ]
    )
    with transaction.atomic():
        made = create_user(email=user.email, password=password, name=user.name, language=language, now=now)
        organisation = organisations.create(
            owner=made, name=organisation_name, currency=currency, period_timezone=period_timezone, slug=slug, now=now
        )
    return SignedUp(made, organisation)


def create_user(
    *, email: str, password: str, name: str = "", language: str = "", operator: bool = False, now: datetime
) -> User:
    """A person without an organisation (one who was invited, or an operator)."""
    user = User(email=email.strip().lower(), name=name.strip(), language=language)
    shapes.refuse([_email(user.email), *_password(password, user)])
    try:
        with transaction.atomic():
            made = User.objects.create_user(
                user.email,
                password,
                name=user.name,
                language=language,
                is_operator=operator,
                is_staff=operator,
                date_joined=now,
            )
            note(actor=made.public_id, deed="user.create", target=made.public_id, data={"operator": operator}, now=now)
    except IntegrityError:
        raise InvalidInput([Finding("email", "taken", _("there is an account of this address: sign in"))]) from None
    return made


def _email(value: str) -> Finding | None:
    try:
        validate_email(value)
    except ValidationError as error:
        return Finding("email", "bad_email", " ".join(error.messages))
    return None


def _password(value: str, user: User) -> list[Finding]:
    try:
        validate_password(value, user)
    except ValidationError as error:
        return [
            Finding("password", problem.code or "weak", message)
            for problem, message in zip(error.error_list, error.messages, strict=True)
        ]
    return []
