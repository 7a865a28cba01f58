"""Shapes of what providers type: where a node stands, what it costs, when, how green."""

from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from frontend.forms.signup import zone_choices
from portal.kit.errors import InvalidInput

FIELD_OF = {
    "prices.core": "core_price",
    "prices.card": "card_price",
    "spot_prices.core": "core_spot",
    "spot_prices.card": "card_spot",
    "green_ratio": "green",
    "until": "until",
    "hours": "hours_from",
    "name": "name",
    "prices": "core_price",
}
"""Where a finding about the terms belongs in the form; the longest path that fits."""


def amount(label: Any, **more: Any) -> forms.DecimalField:
    return forms.DecimalField(
        label=label,
        max_digits=13,
        decimal_places=6,
        min_value=Decimal(0),
        max_value=Decimal(1_000_000),
        localize=False,
        widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
        **more,
    )


def with_currency(label: Any, currency: str) -> str:
    return gettext("%(label)s, %(currency)s") % {"label": label, "currency": currency}


def plain(value: Decimal) -> str:
    return f"{value:f}"


class PriceFields(forms.Form):
    """Unit prices, fixed and interruptible."""

    core_price = amount(_("Price per core-hour"))
    card_price = amount(_("Price per card-hour"), required=False, help_text=_("Only if the node has cards."))
    core_spot = amount(_("Spot price per core-hour"), required=False, help_text=_("For jobs that may be pre-empted."))
    card_spot = amount(_("Spot price per card-hour"), required=False)

    def __init__(self, *args: Any, currency: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("core_price", "card_price", "core_spot", "card_spot"):
            self.fields[name].label = with_currency(self.fields[name].label, currency)

    def price_terms(self) -> dict[str, Any]:
        values = self.cleaned_data
        fixed = {"core": values.get("core_price"), "card": values.get("card_price")}
        spot = {"core": values.get("core_spot"), "card": values.get("card_spot")}
        return {
            "prices": {name: plain(value) for name, value in fixed.items() if value is not None},
            **(
                {"spot_prices": {name: plain(value) for name, value in spot.items() if value is not None}}
                if any(value is not None for value in spot.values())
                else {}
            ),
        }


class TermsForm(PriceFields):
    """Everything an offer says."""

    green = forms.DecimalField(
        label=_("Green power, per cent"),
        required=False,
        min_value=0,
        max_value=100,
        max_digits=5,
        decimal_places=2,
        help_text=_("Empty: the published figure of the region."),
        widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
    )
    hours_from = forms.TimeField(
        label=_("Open from"), required=False, widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
    )
    hours_to = forms.TimeField(
        label=_("Open until"),
        required=False,
        help_text=_("Both empty: always open."),
        widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
    )
    hours_timezone = forms.ChoiceField(label=_("Time zone of these hours"), choices=zone_choices)

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if (values.get("hours_from") is None) != (values.get("hours_to") is None):
            self.add_error("hours_to", _("Give both times, or neither."))
        return values

    def terms(self) -> dict[str, Any]:
        values = self.cleaned_data
        terms = self.price_terms()
        if values.get("green") is not None:
            terms["green_ratio"] = plain(values["green"] / 100)
        if values.get("hours_from") is not None:
            terms["hours"] = [
                {
                    "from": f"{values['hours_from']:%H:%M}",
                    "to": f"{values['hours_to']:%H:%M}",
                    "timezone": values["hours_timezone"],
                }
            ]
        return terms


class OnboardingForm(TermsForm):
    """A node to come: its place, and the terms that are published once its checks are green."""

    name = forms.CharField(
        label=_("Name of the node"), max_length=80, required=False, help_text=_("Empty: we make one up.")
    )
    zone = forms.ChoiceField(label=_("Region and zone"))
    publish = forms.BooleanField(
        label=_("Publish at these prices as soon as all checks are green"), required=False, initial=True
    )
    refuse_past_due = forms.BooleanField(
        label=_("Take no jobs of organisations with an overdue invoice"), required=False, initial=True
    )

    def __init__(self, *args: Any, zones: list[tuple[str, Any]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["zone"].choices = zones  # type: ignore[attr-defined]
        if self.is_bound and not self.data.get("publish"):
            self.fields["core_price"].required = False


def explain(form: forms.Form, refused: InvalidInput) -> None:
    """The findings of the market's services, at the fields they belong to."""
    for finding in refused.errors:
        path = finding.path.removeprefix("terms.")
        field = next((name for start, name in FIELD_OF.items() if path.startswith(start)), None)
        form.add_error(field if field in form.fields else None, gettext(str(finding.message)))
