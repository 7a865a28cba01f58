"""What an operator looks for."""

from django import forms
from django.utils.translation import gettext_lazy as _


class AuditForm(forms.Form):
    mostly_optional = True
    actor = forms.CharField(label=_("Who"), required=False, max_length=80)
    deed = forms.CharField(label=_("Deed begins with"), required=False, max_length=60)
    target = forms.CharField(label=_("Target"), required=False, max_length=80)
