"""Sign-up: a person and their organisation in one form."""

from typing import Any
from zoneinfo import available_timezones

from allauth.account.forms import SignupForm as AllauthSignupForm
from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from portal import clock
from portal.accounts.services import organisations
from portal.kit.money import CURRENCIES

COMMON_ZONES = ("UTC", "Asia/Shanghai", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles")
NAMES_OF_CURRENCIES = {
    "CNY": _("CNY · Chinese yuan"),
    "USD": _("USD · US dollar"),
    "EUR": _("EUR · Euro"),
    "GBP": _("GBP · Pound sterling"),
    "HKD": _("HKD · Hong Kong dollar"),
    "SGD": _("SGD · Singapore dollar"),
    "JPY": _("JPY · Japanese yen"),
}


def currency_choices() -> list[tuple[str, Any]]:
    named = [(code, text) for code, text in NAMES_OF_CURRENCIES.items() if code in CURRENCIES]
    return named + [(code, code) for code in sorted(CURRENCIES) if code not in NAMES_OF_CURRENCIES]


def zone_choices() -> list[tuple[str, str]]:
    return [(zone, zone) for zone in COMMON_ZONES] + [
        (zone, zone)
        for zone in sorted(available_timezones())
        if "/" in zone and zone not in COMMON_ZONES and not zone.startswith("Etc/")
    ]


class OrganisationFields(forms.Form):
    """Name, currency and time zone of an organisation."""

    organisation = forms.CharField(label=_("Name of the organisation"), max_length=120, min_length=2)
    currency = forms.ChoiceField(label=_("Currency of its bills"), choices=currency_choices)
    period_timezone = forms.ChoiceField(label=_("Time zone of its months"), choices=zone_choices)

    def make_organisation(self, owner: Any) -> Any:
        return organisations.create(
            owner=owner,
            name=self.cleaned_data["organisation"],
            currency=self.cleaned_data["currency"],
            period_timezone=self.cleaned_data["period_timezone"],
            now=clock.now(),
        )


class SignupForm(OrganisationFields, AllauthSignupForm):
    """allauth's form with our fields; the organisation is made in the same request."""

    name = forms.CharField(label=_("Your name"), max_length=120, required=False)
    field_order = ("email", "password1", "name", "organisation", "currency", "period_timezone")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs.pop("placeholder", None)

    def custom_signup(self, request: HttpRequest, user: Any) -> None:
        user.name = self.cleaned_data["name"]
        user.time_zone = self.cleaned_data["period_timezone"]
        user.save(update_fields=["name", "time_zone"])
        self.make_organisation(user)
