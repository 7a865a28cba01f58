"""What one looks for on the market: a form that writes the filter language."""

from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from frontend.forms.provider import amount, plain
from frontend.presenters.words import KINDS

ORDERS = [
    ("price_core_hour", _("Cheapest core-hour")),
    ("price_card_hour", _("Cheapest card-hour")),
    ("green_ratio-", _("Greenest")),
    ("cpu_cores-", _("Most cores")),
    ("scu_per_price-", _("Most SCU for the money")),
]
HIGH = Decimal(1_000_000)


def _share() -> forms.DecimalField:
    return forms.DecimalField(
        label=_("Green power at least, %"),
        required=False,
        min_value=0,
        max_value=100,
        max_digits=5,
        decimal_places=2,
        widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
    )


class MarketForm(forms.Form):
    mostly_optional = True
    region = forms.ChoiceField(label=_("Region"), required=False)
    card = forms.ChoiceField(
        label=_("Cards"),
        required=False,
        choices=[("", _("with or without")), ("real", _("with a card")), ("virtual", _("with a virtual card"))],
    )
    cores = forms.IntegerField(
        label=_("Cores at least"),
        required=False,
        min_value=1,
        max_value=100_000,
        widget=forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"}),
    )
    most = amount(_("Core-hour at most"), required=False)
    green = _share()
    all = forms.BooleanField(label=_("Also closed and unmeasured ones"), required=False)
    kind = forms.ChoiceField(
        label=_("SCU for"),
        required=False,
        choices=[(value, word.text) for value, word in KINDS["task_type"].items()],
        initial="custom",
    )
    order = forms.ChoiceField(label=_("Order"), required=False, choices=ORDERS)

    def __init__(self, *args: Any, regions: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["region"].choices = [("", _("everywhere")), *regions]  # type: ignore[attr-defined]

    def clauses(self) -> dict[str, str]:
        """Form field → clause of the filter language, for what was filled in."""
        values = self.cleaned_data if self.is_bound and self.is_valid() else {}
        found: dict[str, str] = {}
        if values.get("region"):
            found["region"] = f'region="{values["region"]}"'
        if values.get("card"):
            found["card"] = "num_gpus>=1" if values["card"] == "real" else "virtual=true"
        if values.get("cores"):
            found["cores"] = f"cpu_cores>={values['cores']}"
        if values.get("most") is not None:
            found["most"] = f"price_core_hour<={plain(values['most'])}"
        if values.get("green") is not None:
            found["green"] = f"green_ratio>={plain(values['green'] / 100)}"
        return found


class ReferenceForm(forms.Form):
    mostly_optional = True
    market = forms.ChoiceField(label=_("Market"), required=False)
    card = forms.CharField(label=_("Card"), required=False, max_length=80)

    def __init__(self, *args: Any, markets: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", _("all markets")), *((market, market) for market in markets)]
        self.fields["market"].choices = choices  # type: ignore[attr-defined]
