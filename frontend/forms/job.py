"""The form of a new job. It writes the same description as the YAML beside it, and reads back what it knows of one."""

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import yaml
from django import forms
from django.forms.utils import ErrorDict
from django.utils.translation import gettext_lazy as _

from frontend.forms.provider import amount, plain, with_currency
from frontend.presenters import words
from portal.kit.errors import Finding

Spec = dict[str, Any]

SAMPLES: dict[str, Spec] = {
    "hello": {
        "name": "greeting",
        "run": 'echo "Hello from $IDLEWILD_REGION"\n'
        'for i in 1 2 3 4 5 6; do echo "step $i"; sleep 2; done\n'
        "date > greeting.txt\n",
        "resources": {"cpus": "0.5", "memory": "0.25"},
        "outputs": [{"name": "greeting", "path": "/job/greeting.txt"}],
        "max_duration": "10m",
    },
    "card": {
        "name": "one-card",
        "task_type": "inference",
        "run": 'echo "one card for a while"\nfor i in 1 2 3 4 5 6; do echo "batch $i"; sleep 3; done\n',
        "resources": {"cpus": "0.5", "memory": "0.25", "accelerators": "virtual:1"},
        "max_duration": "10m",
    },
}
KNOWN = frozenset(
    {
        "name", "project", "run", "setup", "task_type", "max_duration", "max_price", "budget", "labels", "envs", "secrets", "inputs",
        "outputs", "resources", "placement", "on_disconnect",
    }
)  # fmt: skip
RESOURCES = frozenset({"cpus", "memory", "disk_size", "accelerators", "scu", "infra", "use_spot"})
PLACEMENT = frozenset({"pick", "min_green", "deadline", "verified", "preset", "latency_to"})


FOLDED = ("envs", "secrets", "inputs", "outputs", "labels")
PLACES = {
    "resources.infra": "region",
    "placement.verified": "unverified",
    "on_disconnect.action": "on_disconnect",
    "on_disconnect.for": "wait_for",
}


class _Dumper(yaml.SafeDumper):
    """YAML as people write it: long text as a block."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def as_yaml(spec: Mapping[str, Any]) -> str:
    return yaml.dump(_plain(spec), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _plain(value: Any) -> Any:
    """Only the types YAML knows; numbers that were kept as text come out as they were written."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int) else str(value)


def _choices(kind: str) -> list[tuple[str, Any]]:
    return [(value, word.text) for value, word in words.KINDS[kind].items()]


def _lines(label: Any, hint: Any) -> forms.CharField:
    return forms.CharField(
        label=label,
        required=False,
        help_text=hint,
        widget=forms.Textarea(attrs={"class": "code", "spellcheck": "false"}),
    )


def _short(label: Any, *, hint: Any = "", required: bool = False, most: int = 60) -> forms.CharField:
    widget = forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"})
    return forms.CharField(label=label, required=required, max_length=most, help_text=hint, widget=widget)


class JobForm(forms.Form):
    mostly_optional = True
    name = _short(_("Name"), hint=_("Lower case letters, digits, hyphens."), most=63)
    project = forms.ChoiceField(label=_("Project"))
    run = forms.CharField(
        label=_("Command"),
        strip=False,
        help_text=_("For /bin/sh. It starts in /job, the only place besides /tmp where it may write."),
        widget=forms.Textarea(attrs={"class": "code", "spellcheck": "false"}),
    )
    setup = _lines(_("Command before it"), "")
    task_type = forms.ChoiceField(
        label=_("Kind of work"),
        choices=[("", _("guess it from the command")), *_choices("task_type")],
        initial="",
        required=False,
    )
    max_duration = _short(_("Longest duration"), hint=_("90s, 10m, 12h, 7d"))
    envs = _lines(_("Variables"), _("One a line: NAME=value"))
    secrets = _short(_("Secrets"), hint=_("Names of stored secrets, with commas between them."), most=500)
    inputs = _lines(_("Inputs"), _("One a line: https://… or artefact://… and the path under /job"))
    outputs = _lines(_("Outputs"), _("One a line: name and path under /job"))
    labels = _lines(_("Labels"), _("One a line: name=value. They appear on usage records."))
    cpus = _short(_("Cores"))
    memory = _short(_("Memory, GiB"))
    disk_size = _short(_("Disk, GiB"))
    accelerators = _short(
        _("Cards"), hint=_("Model and number, such as A100-80GB:1; virtual:1 for a virtual card."), most=120
    )
    scu = _short(_("SCU at least"), hint=_("Instead of naming a card: 8 for eight times an A100-80GB."), most=20)
    region = forms.ChoiceField(label=_("Region"), required=False)
    max_price = amount(_("Most per hour"), required=False)
    budget = amount(_("Budget of the job"), required=False)
    use_spot = forms.BooleanField(label=_("Use spot prices: cheaper, but the job may be pre-empted"), required=False)
    preset = forms.ChoiceField(
        label=_("Scenario"),
        choices=[("", _("none")), *_choices("preset")],
        required=False,
        help_text=_("Fills in what is left open; the quote shows with what."),
    )
    latency_to = forms.ChoiceField(label=_("Near the people in"), required=False)
    pick = forms.ChoiceField(label=_("Recommend"), required=False)
    min_green = forms.DecimalField(
        label=_("Green power at least, %"),
        required=False,
        min_value=0,
        max_value=100,
        max_digits=5,
        decimal_places=2,
        widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
    )
    deadline = _short(_("Finish within"), hint=_("2h, 1d, or a time"))
    on_disconnect = forms.ChoiceField(
        label=_("If the node falls silent"), choices=_choices("disconnect"), required=False
    )
    wait_for = _short(_("Wait for at most"), hint=_("Only when it shall wait: 10m"))
    unverified = forms.BooleanField(label=_("Also nodes whose performance is not measured"), required=False)

    def __init__(
        self, *args: Any, projects: list[tuple[str, str]], regions: list[tuple[str, str]], currency: str, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fields["project"].choices = projects  # type: ignore[attr-defined]
        self.fields["region"].choices = [("", _("everywhere")), *regions]  # type: ignore[attr-defined]
        self.fields["latency_to"].choices = [("", _("anywhere")), *regions]  # type: ignore[attr-defined]
        self.fields["pick"].choices = [  # type: ignore[attr-defined]
            choice for choice in _choices("pick") if choice[0] not in ("ask", "weights")
        ]
        self.fields["pick"].initial = "knee"
        for name in ("max_price", "budget"):
            self.fields[name].label = with_currency(self.fields[name].label, currency)

    def trust_the_service(self) -> None:
        """No checks of our own: the service reads the description and finds every fault at once."""
        self._errors = ErrorDict()
        self.cleaned_data = {}

    def place(self, findings: Sequence[Finding]) -> None:
        """Each finding at the field it speaks of; the others stand above the quote."""
        for finding in findings:
            name = PLACES.get(finding.path) or finding.path.rsplit(".", 1)[-1].split("[")[0]
            if self.is_bound and name in self.fields:
                self.add_error(name, str(finding.message))

    @property
    def more_filled(self) -> str:
        """What of the folded part is filled in, by label."""
        return ", ".join(str(self[name].label) for name in FOLDED if self[name].value())

    @property
    def more_wrong(self) -> bool:
        return any(self[name].errors for name in FOLDED)

    @property
    def placement_open(self) -> bool:
        names = ("preset", "latency_to", "min_green", "deadline", "wait_for", "unverified")
        return any(self[name].value() or self[name].errors for name in names)

    # -- form → description
    def spec(self) -> Spec:
        """The description, without what was left empty. Reading errors are the service's to find, all at once."""
        values = {name: self[name].value() for name in self.fields}
        spec: Spec = {name: values[name] for name in ("name", "project") if values[name]}
        if values["task_type"]:
            spec["task_type"] = values["task_type"]
        resources = {
            name: values[name] for name in ("cpus", "memory", "disk_size", "accelerators", "scu") if values[name]
        }
        if values["region"]:
            resources["infra"] = f"{values['region']}/*/*"
        if values["use_spot"]:
            resources["use_spot"] = True
        if resources:
            spec["resources"] = resources
        if values["envs"]:
            spec["envs"] = dict(_pair(line, "=") for line in _rows(values["envs"]))
        if values["secrets"]:
            spec["secrets"] = dict.fromkeys(
                (name.strip() for name in values["secrets"].split(",") if name.strip()), None
            )
        if values["inputs"]:
            spec["inputs"] = [
                {"url": url, "path": path} for url, path in (_pair(line, " ") for line in _rows(values["inputs"]))
            ]
        if values["outputs"]:
            spec["outputs"] = [
                {"name": name, "path": path} for name, path in (_pair(line, " ") for line in _rows(values["outputs"]))
            ]
        if values["labels"]:
            spec["labels"] = dict(_pair(line, "=") for line in _rows(values["labels"]))
        if values["setup"]:
            spec["setup"] = _unix(values["setup"])
        spec["run"] = _unix(values["run"] or "")
        spec |= {name: values[name] for name in ("max_duration", "max_price", "budget") if values[name]}
        return spec | self._placement(values)

    def _placement(self, values: Mapping[str, Any]) -> Spec:
        spec: Spec = {}
        placement: Spec = {name: values[name] for name in ("preset", "latency_to", "deadline") if values[name]}
        if values["pick"] and values["pick"] != "knee":
            placement["pick"] = values["pick"]
        if values["min_green"]:
            green = self.fields["min_green"].clean(values["min_green"]) if self._is_share(values["min_green"]) else None
            placement["min_green"] = plain(green / 100) if green is not None else values["min_green"]
        if values["unverified"]:
            placement["verified"] = False
        if placement:
            spec["placement"] = placement
        if values["on_disconnect"] and values["on_disconnect"] != "replace":
            spec["on_disconnect"] = {"action": values["on_disconnect"]}
            if values["wait_for"]:
                spec["on_disconnect"]["for"] = values["wait_for"]
        return spec

    def _is_share(self, text: Any) -> bool:
        try:
            self.fields["min_green"].clean(text)
        except forms.ValidationError:
            return False
        return True


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def _rows(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _pair(line: str, by: str) -> tuple[str, str]:
    left, _found, right = line.partition(by)
    return left.strip(), right.strip()


# --- description → form --------------------------------------------------------------------------------------------------
def beyond_the_form(spec: Mapping[str, Any]) -> list[str]:
    """Fields of a description that the form cannot show; with one of them the YAML stays in charge."""
    found = [name for name in spec if name not in KNOWN]
    for section, known in (("resources", RESOURCES), ("placement", PLACEMENT)):
        inside = spec.get(section)
        if isinstance(inside, Mapping):
            found += [f"{section}.{name}" for name in inside if name not in known]
        elif inside is not None:
            found.append(section)
    for name in ("inputs", "outputs"):
        rows = spec.get(name) or []
        plain_keys = {"url", "path"} if name == "inputs" else {"name", "path"}
        if not isinstance(rows, list) or any(not isinstance(row, Mapping) or set(row) != plain_keys for row in rows):
            found += [name] if rows else []
    if isinstance(spec.get("budget"), Mapping) or isinstance(
        (spec.get("resources") or {}).get("accelerators"), Mapping | list
    ):
        found.append("budget" if isinstance(spec.get("budget"), Mapping) else "resources.accelerators")
    return found


def initial_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the form begins with for a description."""
    resources, placement = _section(spec, "resources"), _section(spec, "placement")
    silent = _section(spec, "on_disconnect")
    values: dict[str, Any] = {
        name: spec[name]
        for name in ("name", "project", "run", "setup", "task_type", "max_duration", "max_price", "budget")
        if spec.get(name) is not None and not isinstance(spec[name], Mapping)
    }
    values |= {
        name: resources[name]
        for name in ("cpus", "memory", "disk_size", "accelerators", "scu", "use_spot")
        if resources.get(name)
    }
    values["region"] = str(resources.get("infra", "")).split("/")[0].replace("*", "")
    values["envs"] = "\n".join(f"{name}={value}" for name, value in _section(spec, "envs").items())
    values["labels"] = "\n".join(f"{name}={value}" for name, value in _section(spec, "labels").items())
    values["secrets"] = ", ".join(_section(spec, "secrets"))
    values["inputs"] = "\n".join(f"{row.get('url', '')} {row.get('path', '')}" for row in _list(spec, "inputs"))
    values["outputs"] = "\n".join(f"{row.get('name', '')} {row.get('path', '')}" for row in _list(spec, "outputs"))
    values |= {name: placement[name] for name in ("preset", "latency_to", "pick", "deadline") if placement.get(name)}
    if placement.get("min_green"):
        values["min_green"] = _percent(placement["min_green"])
    values["unverified"] = placement.get("verified") is False
    values["on_disconnect"] = silent.get("action", "replace")
    values["wait_for"] = silent.get("for", "")
    return values


def _percent(share: Any) -> str:
    try:
        return plain((Decimal(str(share)) * 100).normalize())
    except InvalidOperation:
        return ""


def _section(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = spec.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(spec: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = spec.get(name)
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list) else []
