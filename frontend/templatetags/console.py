"""Tags and filters of the console's templates: icons, states, figures, fields, live regions, the bundle."""

from collections.abc import Iterable
from datetime import date, datetime

from django import template
from django.forms import BoundField, CheckboxInput, Select, Textarea
from django.http import QueryDict
from django.template.context import Context
from django.templatetags.static import static
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language

from frontend import bundle
from frontend.presenters import figures, words
from frontend.presenters.icons import ICONS

register = template.Library()

register.filter("money", figures.money)
register.filter("hours", figures.hours)
register.filter("percent", figures.percent)
register.filter("ratio", figures.ratio)
register.filter("size", figures.size)
register.filter("mebibytes", figures.mebibytes)
register.filter("cores", figures.cores)
register.filter("duration", figures.duration)
register.filter("minor", figures.minor)
register.filter("price", figures.unit_price)


@register.filter
def figure(value: object, places: int = 0) -> str:
    return figures.number(value, int(places))


@register.filter
def get(mapping: dict | None, key: str) -> object:
    """A value by key, for keys a template cannot write."""
    return (mapping or {}).get(key)


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """A line icon. With a label it is an image of that name, without one it is decoration."""
    if label:
        return format_html(
            '<svg class="icon" viewBox="0 0 24 24" role="img" aria-label="{}"><path d="{}"/></svg>', label, ICONS[name]
        )
    return format_html('<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="{}"/></svg>', ICONS[name])


@register.simple_tag
def state(kind: str, value: object, plain: bool = False) -> SafeString:
    """A state as a pill: word, tone and icon, so that colour never speaks alone."""
    known = words.word(kind, value)
    return format_html(
        '<span class="state tone-{}{}">{}{}</span>', known.tone, " plain" if plain else "", icon(known.icon), known.text
    )


@register.simple_tag
def word(kind: str, value: object) -> str:
    return str(words.word(kind, value).text)


WITHOUT_TOPIC = "changed, every 5s"
"""Regions that nobody announces changes of (fleet, queue, market) ask again by themselves."""
DAY_FORMATS = {"zh-hans": "Y年n月j日"}


@register.filter
def day(moment: datetime | date | None) -> str:
    """2 Nov 2026, 2026年11月2日; a moment counts in the reader's zone."""
    if moment is None:
        return ""
    if isinstance(moment, datetime):
        moment = timezone.localtime(moment)
    return date_format(moment, DAY_FORMATS.get(get_language() or "en", "j M Y"))


@register.simple_tag
def when(moment: datetime | None, since: bool = False) -> SafeString | str:
    """A moment in the reader's zone; `since` lets the page keep "3 minutes ago" true."""
    if moment is None:
        return figures.UNKNOWN
    local = timezone.localtime(moment)
    shown = f"{day(local)} {local:%H:%M}"
    time = format_html('<time datetime="{}">{}</time>', moment.isoformat(), shown)
    return format_html("<since-time>{}</since-time>", time) if since else time


@register.simple_tag
def clock(moment: datetime | None) -> SafeString | str:
    """Only the time of day, with seconds; the full date is in the title."""
    if moment is None:
        return figures.UNKNOWN
    local = timezone.localtime(moment)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        f"{day(local)} {local:%H:%M:%S}",
        f"{local:%H:%M:%S}",
    )


@register.simple_tag(takes_context=True)
def live(context: Context, part: str, *topics: str) -> SafeString:
    """The attributes of a live region: which topics wake it, and where its HTML comes from (this page, `?part=`)."""
    request = context["request"]
    query = QueryDict(request.META.get("QUERY_STRING", ""), mutable=True)
    query["part"] = part
    known = [topic for topic in topics if topic]
    return format_html(
        'id="part-{}" data-live="{}" hx-get="{}?{}" hx-trigger="{}" hx-swap="outerMorph"',
        part,
        " ".join(known),
        request.path,
        query.urlencode(),
        "changed" if known else WITHOUT_TOPIC,
    )


@register.simple_tag
def console_bundle() -> SafeString:
    """Style sheets and script of the build, or nothing where there is none (the page then shows a banner)."""
    built = bundle.find()
    if built is None:
        return mark_safe("")
    styles = format_html_join("", '<link rel="stylesheet" href="{}">', ((static(name),) for name in built.styles))
    return format_html('{}<script type="module" src="{}"></script>', styles, static(built.script))


@register.simple_tag
def bundle_missing() -> bool:
    return bundle.find() is None


@register.inclusion_tag("parts/field.html")
def field(bound: BoundField, wide: bool = False, rows: int = 0, label: str = "") -> dict[str, object]:
    """A form field with label, hint and problems tied to the input by `aria-describedby`."""
    widget = bound.field.widget
    described = [f"{bound.auto_id}-hint"] if bound.help_text else []
    if bound.errors:
        described.append(f"{bound.auto_id}-problem")
    attrs: dict[str, object] = {"class": "form-select" if isinstance(widget, Select) else "form-control"}
    if isinstance(widget, CheckboxInput):
        attrs = {}
    if isinstance(widget, Textarea) and rows:
        attrs["rows"] = rows
    if described:
        attrs["aria-describedby"] = " ".join(described)
    if bound.errors:
        attrs["aria-invalid"] = "true"
    kept = widget.attrs.get("class")
    if kept and "class" in attrs:
        attrs["class"] = f"{attrs['class']} {kept}"
    return {
        "bound": bound,
        "input": bound.as_widget(attrs=attrs),
        "wide": wide,
        "label": label or bound.label,
        "say_optional": not bound.field.required and not getattr(bound.form, "mostly_optional", False),
        "is_check": isinstance(widget, CheckboxInput),
    }


@register.inclusion_tag("parts/empty.html")
def empty(icon: str, title: str, text: str = "", href: str = "", action: str = "") -> dict[str, object]:
    """What a list shows before there is anything in it: what it is for, and the way to the first one."""
    return {"icon": icon, "title": title, "text": text, "href": href, "action": action}


@register.simple_tag
def share_of(part: int | None, whole: int | None, width: int = 100) -> int:
    """How far a bar of `width` reaches: SVG and <progress> take numbers, a strict CSP takes no style."""
    if not part or not whole:
        return 0
    return max(0, min(width, round(width * part / whole)))


@register.filter
def joined(values: Iterable[object], by: str = ", ") -> str:
    return by.join(str(value) for value in values)
