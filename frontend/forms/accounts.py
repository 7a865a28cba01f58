"""Shapes of what people type on the settings pages; the services know the rules."""

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from frontend.forms.signup import zone_choices
from frontend.presenters import words
from portal.accounts.models import Role
from portal.kit.webhooks import TYPES


def project_slug(**more: Any) -> forms.CharField:
    return forms.CharField(
        label=_("Short name"),
        max_length=63,
        help_text=_("Lower case letters, digits and hyphens; used in job descriptions."),
        **more,
    )


class ProjectForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=120)
    slug = project_slug()
    department = forms.CharField(
        label=_("Department"), max_length=120, required=False, help_text=_("Bills can be split by department.")
    )


class ProjectChangeForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=120)
    department = forms.CharField(label=_("Department"), max_length=120, required=False)


class InviteForm(forms.Form):
    email = forms.EmailField(label=_("E-mail address"))
    role = forms.ChoiceField(label=_("Role"))

    def __init__(self, *args: Any, roles: list[tuple[str, Any]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["role"].choices = roles  # type: ignore[attr-defined]


class KeyForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=80, help_text=_("What it is for, such as “nightly build”."))
    days = forms.TypedChoiceField(
        label=_("Ends after"),
        coerce=int,
        choices=[
            (30, _("30 days")),
            (90, _("90 days")),
            (365, _("One year")),
            (0, _("Never, but with the membership")),
        ],
        initial=90,
    )
    scopes = forms.MultipleChoiceField(label=_("May"), widget=forms.CheckboxSelectMultiple)

    def __init__(self, *args: Any, deeds: list[tuple[str, Any]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["scopes"].choices = deeds  # type: ignore[attr-defined]
        self.fields["scopes"].initial = [deed for deed, _text in deeds]


class SecretForm(forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=120, help_text=_("As the job sees it: letters, digits and _, such as HUB_TOKEN.")
    )
    value = forms.CharField(
        label=_("Value"), strip=False, widget=forms.Textarea(attrs={"rows": 3, "class": "code", "autocomplete": "off"})
    )
    project = forms.ChoiceField(label=_("For"), required=False)

    def __init__(self, *args: Any, projects: list[tuple[str, Any]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["project"].choices = [("", _("all projects")), *projects]  # type: ignore[attr-defined]


class WebhookForm(forms.Form):
    url = forms.CharField(
        label=_("Address"),
        max_length=500,
        help_text=_("https, to a public address that answers with 2xx within 10 seconds."),
    )
    description = forms.CharField(label=_("What it is for"), max_length=120, required=False)
    types = forms.MultipleChoiceField(
        label=_("Tell it of"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        choices=[(kind, kind) for kind in TYPES if kind != "endpoint.test"],
    )


class OrganisationForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=120)
    period_timezone = forms.ChoiceField(
        label=_("Time zone of its months"), choices=zone_choices, help_text=_("A change holds from the next month on.")
    )
    tax_id = forms.CharField(label=_("Tax number"), max_length=40, required=False)
    country = forms.CharField(label=_("Country, two letters"), max_length=2, required=False)
    address = forms.CharField(label=_("Address on bills"), required=False, widget=forms.Textarea)
    parent = forms.ChoiceField(label=_("Organisation above it"), required=False)

    def __init__(self, *args: Any, parents: list[tuple[str, Any]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["parent"].choices = [("", _("none")), *parents]  # type: ignore[attr-defined]


class ProfileForm(forms.Form):
    name = forms.CharField(label=_("Your name"), max_length=120, required=False)
    time_zone = forms.ChoiceField(label=_("Your time zone"), choices=zone_choices)
    language = forms.ChoiceField(
        label=_("Language"), required=False, choices=lambda: [("", _("As my browser")), *LANGUAGE_NAMES]
    )
    theme = forms.ChoiceField(
        label=_("Appearance"),
        required=False,
        choices=[("", _("As my system")), ("light", _("Light")), ("dark", _("Dark"))],
    )


LANGUAGE_NAMES = [(code, {"en": "English", "zh-hans": "简体中文"}.get(code, name)) for code, name in settings.LANGUAGES]


def role_choices() -> list[tuple[str, Any]]:
    return [(role.value, words.word("role", role).text) for role in Role]
