"""What a usage page is asked for: a month, and how to group it."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

GROUPS = [
    ("project", _("Project")),
    ("department", _("Department")),
    ("day", _("Day")),
    ("job", _("Job")),
    ("provider", _("Provider")),
    ("region", _("Region")),
    ("node", _("Node")),
    ("sku", _("Kind of capacity")),
    ("hardware", _("Hardware")),
    ("task", _("Task")),
    ("user", _("User")),
    ("hour", _("Hour")),
]


class UsageForm(forms.Form):
    mostly_optional = True
    month = forms.ChoiceField(label=_("Month"), required=False)
    by = forms.ChoiceField(label=_("By"), choices=GROUPS, required=False)

    def __init__(self, *args: Any, months: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["month"].choices = months  # type: ignore[attr-defined]
