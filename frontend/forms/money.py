"""What is typed on the pages of wallet, budgets and bank transfers; the services know the rules."""

from django import forms
from django.utils.translation import gettext_lazy as _

SCOPES = [
    ("organisation", _("The organisation")),
    ("department", _("A department")),
    ("project", _("A project")),
    ("job", _("One job")),
]
AT_LIMIT = [
    ("notify", _("Tell us, stop nothing")),
    ("block", _("Start nothing new")),
    ("stop", _("Start nothing new, and stop what runs")),
]


class LowForm(forms.Form):
    low = forms.CharField(
        label=_("Tell us when less is left than"),
        max_length=30,
        required=False,
        help_text=_("Empty: one hour of what runs at that moment."),
    )


class BudgetForm(forms.Form):
    scope = forms.ChoiceField(label=_("For"), choices=SCOPES)
    key = forms.CharField(
        label=_("Which one"),
        max_length=120,
        required=False,
        help_text=_("The department's name, the project's short name or the job's id."),
    )
    amount = forms.CharField(label=_("Amount a month, with tax"), max_length=30)
    at_limit = forms.ChoiceField(label=_("At 100 %"), choices=AT_LIMIT)


class StatementForm(forms.Form):
    file = forms.FileField(
        label=_("Bank statement"), help_text=_("CSV (also of Chinese banks) or camt.053 XML, at most 5 MB.")
    )


class AssignForm(forms.Form):
    mostly_optional = True
    organisation = forms.CharField(label=_("Organisation"), max_length=63)
    invoice = forms.CharField(label=_("Invoice"), max_length=40, required=False)
