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


class CreditForm(forms.Form):
    invoice = forms.CharField(label=_("Number of the invoice"), max_length=40)
    total = forms.CharField(
        label=_("Amount, with tax"), max_length=30, required=False, help_text=_("Only for a credit note.")
    )
    reason = forms.CharField(label=_("Why"), max_length=200)


class TermsForm(forms.Form):
    organisation = forms.CharField(label=_("Organisation"), max_length=63, help_text=_("Its short name."))
    mode = forms.ChoiceField(
        label=_("It pays"),
        choices=[("postpaid", _("by invoice, afterwards")), ("prepaid", _("before, from its wallet"))],
    )
    payment_days = forms.IntegerField(label=_("Days until an invoice is due"), min_value=0, max_value=120, initial=14)
    discount = forms.DecimalField(
        label=_("Discount, per cent"), min_value=0, max_value=100, max_digits=7, decimal_places=4, initial=0
    )
