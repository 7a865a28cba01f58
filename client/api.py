"""The portal's REST as methods: the only place of the client that knows paths.

    portal = Idlewild(url="https://…", key="idw_…")
    quote = portal.quotes.make({"run": "echo hi", "max_price": "1.00"})
    job = portal.jobs.submit(spec, quote=quote.id, point=quote.pick)

Everything raises the typed errors of `errors`. A method that creates or spends takes `key`, the Idempotency-Key; give
the same one to do the same thing again safely.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote as quoted

from .errors import LocalFault
from .http import Answer, Http
from .models import Event, Job, Page, Quote, Row, mapping, rows_of
from .words import t

ROOT = "/api/v1"


def _at(*parts: str) -> str:
    return ROOT + "".join(f"/{quoted(part, safe='')}" for part in parts)


class _Part:
    def __init__(self, http: Http) -> None:
        self._http = http

    def _page(self, path: str, params: Mapping[str, Any]) -> Page:
        return Page.read(self._http.get(path, params).body)

    def _all(self, path: str, params: Mapping[str, Any], limit: int = 0) -> list[Row]:
        """All pages, or the first `limit` rows."""
        found: list[Row] = []
        cursor = ""
        while True:
            page = self._page(
                path, {**params, "limit": min(limit - len(found), 200) if limit else 200, "cursor": cursor}
            )
            found += page.items
            cursor = page.next_cursor
            if not cursor or (limit and len(found) >= limit):
                return found


class Quotes(_Part):
    def make(self, spec: Mapping[str, Any]) -> Quote:
        return Quote.read(self._http.post(f"{ROOT}/quotes", {"spec": spec}).body)

    def get(self, quote: str) -> Quote:
        return Quote.read(self._http.get(_at("quotes", quote)).body)


class Jobs(_Part):
    def submit(self, spec: Mapping[str, Any], *, quote: str = "", point: int | None = None, key: str = "") -> Job:
        body: Row = {"spec": spec}
        if quote:
            body["quote"] = quote
        if point is not None:
            body["point"] = point
        return Job.read(self._http.post(f"{ROOT}/jobs", body, key=key).body)

    def get(self, job: str) -> Job:
        return Job.read(self._http.get(_at("jobs", job)).body)

    def find(self, *, limit: int = 50, **filters: Any) -> list[Row]:
        return self._all(f"{ROOT}/jobs", filters, limit)

    def tasks(self, job: str) -> list[Row]:
        """In the order of the stages."""
        return self._all(_at("jobs", job, "tasks"), {})[::-1]

    def attempts(self, job: str) -> list[Row]:
        """Oldest first."""
        return self._all(_at("jobs", job, "attempts"), {})[::-1]

    def decisions(self, job: str) -> list[Row]:
        """Oldest first."""
        return self._all(_at("jobs", job, "decisions"), {})[::-1]

    def artefacts(self, job: str) -> list[Row]:
        return rows_of(self._http.get(_at("jobs", job, "artefacts")).body)

    def cost(self, job: str) -> Row:
        return mapping(self._http.get(_at("jobs", job, "cost")).body)

    def explain(self, job: str) -> Row:
        return mapping(self._http.get(_at("jobs", job, "explain")).body)

    def events(self, job: str, *, after: int = 0) -> list[Event]:
        """The events with a sequence above `after`, oldest first."""
        found = [Event.read(row) for row in self._all(_at("jobs", job, "events"), {"since": after or None})]
        return sorted((event for event in found if event.sequence > after), key=lambda event: event.sequence)

    def logs(self, job: str, **where: Any) -> Row:
        """One piece of a log: `task attempt stream offset`."""
        return mapping(self._http.get(_at("jobs", job, "logs"), where).body)

    def cancel(self, job: str) -> Job:
        return Job.read(self._http.post(f"{_at('jobs', job)}:cancel").body)

    def retry(self, job: str, *, key: str = "") -> Job:
        return Job.read(self._http.post(f"{_at('jobs', job)}:retry", key=key).body)


class Artefacts(_Part):
    def download(self, artefact: str, to: Path, *, sha256: str = "") -> int:
        """Write the artefact's bytes to the file, its size back. A half-written or wrong file is never left under its name."""
        draft = to.with_name(f".{to.name}.part")
        size, digest = 0, hashlib.sha256()
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
            with self._http.download(_at("artefacts", artefact, "content")) as response, draft.open("wb") as stream:
                for block in response.iter_bytes(1 << 20):
                    stream.write(block)
                    digest.update(block)
                    size += len(block)
            if sha256 and digest.hexdigest() != sha256:
                raise LocalFault(t("{path} came broken; try again.", path=to), code="broken_download")
            draft.replace(to)
        except OSError as problem:
            raise LocalFault(
                t("{path} cannot be written: {problem}", path=to, problem=problem), code="unwritable"
            ) from problem
        finally:
            draft.unlink(missing_ok=True)
        return size


class Market(_Part):
    def offers(self, **params: Any) -> Row:
        """Offers that fit a filter, with `applied_defaults`, `hidden` and, if none fits, `relax`."""
        return mapping(self._http.get(f"{ROOT}/offers", params).body)

    def publish(self, body: Mapping[str, Any], *, key: str = "") -> Row:
        return mapping(self._http.post(f"{ROOT}/offers", body, key=key).body)

    def offer_deed(self, offer: str, deed: str, body: Mapping[str, Any] | None = None, *, key: str = "") -> Row:
        """`reprice pause resume withdraw`"""
        return mapping(self._http.post(f"{_at('offers', offer)}:{deed}", body, key=key).body)

    def nodes(self, **params: Any) -> list[Row]:
        return self._all(f"{ROOT}/nodes", params)

    def node(self, node: str) -> Row:
        return mapping(self._http.get(_at("nodes", node)).body)

    def invite(self, body: Mapping[str, Any], *, key: str = "") -> Row:
        return mapping(self._http.post(f"{ROOT}/nodes:invite", body, key=key).body)

    def node_deed(self, node: str, deed: str, body: Mapping[str, Any] | None = None) -> Row:
        """`drain undrain retire`"""
        return mapping(self._http.post(f"{_at('nodes', node)}:{deed}", body).body)

    def regions(self) -> list[Row]:
        return rows_of(self._http.get(f"{ROOT}/regions").body)


class Money(_Part):
    def usage(self, **params: Any) -> Row:
        return mapping(self._http.get(f"{ROOT}/usage", params).body)

    def records(self, **params: Any) -> list[Row]:
        """The usage records themselves, by `month job attempt project`."""
        return self._all(f"{ROOT}/usage/records", params)

    def balance(self) -> Row:
        return mapping(self._http.get(f"{ROOT}/balance").body)

    def wallet(self) -> Row:
        """Money and granted hours; how to top up by bank transfer."""
        return mapping(self._http.get(f"{ROOT}/wallet").body)

    def wallet_entries(self) -> list[Row]:
        return self._all(f"{ROOT}/wallet/entries", {})

    def budgets(self) -> list[Row]:
        return rows_of(mapping(self._http.get(f"{ROOT}/budgets").body).get("items"))

    def set_budget(self, body: Mapping[str, Any], *, key: str = "") -> Row:
        """`scope key amount at_limit thresholds`; one that is there is replaced."""
        return mapping(self._http.post(f"{ROOT}/budgets", body, key=key).body)

    def delete_budget(self, budget: str) -> None:
        self._http.send("DELETE", _at("budgets", budget))

    def credit_notes(self) -> list[Row]:
        return self._all(f"{ROOT}/credit-notes", {})

    def invoices(self, **params: Any) -> list[Row]:
        return self._all(f"{ROOT}/invoices", params)

    def invoice(self, invoice: str) -> Row:
        return mapping(self._http.get(_at("invoices", invoice)).body)

    def verification(self, invoice: str) -> Row:
        return mapping(self._http.get(_at("invoices", invoice, "verification")).body)

    def pay(self, invoice: str, *, key: str = "") -> Row:
        """Begin a payment by card; `url` is null until its page is there: read it again a moment later."""
        return mapping(self._http.post(f"{ROOT}/payments", {"invoice": invoice}, key=key).body)

    def payment(self, payment: str) -> Row:
        return mapping(self._http.get(_at("payments", payment)).body)

    def payments(self) -> list[Row]:
        return self._all(f"{ROOT}/payments", {})

    def earnings(self) -> Row:
        """Of a provider: balances per currency, and months by sku."""
        return mapping(self._http.get(f"{ROOT}/earnings").body)

    def payouts(self) -> list[Row]:
        return self._all(f"{ROOT}/payouts", {})

    def payout(self, payout: str) -> Row:
        """With its parts, which add up to its amount."""
        return mapping(self._http.get(_at("payouts", payout)).body)

    def statement(self, month: str, kind: str, form: str, **params: Any) -> bytes:
        """A month's `monthly` statement or `split` bill as `csv` or `xlsx`."""
        with self._http.download(f"{_at('statements', month)}/{kind}.{form}", params=params) as response:
            return response.read()

    def document(self, invoice: str, kind: str) -> bytes:
        """The issued invoice as `pdf`, `csv`, `xlsx`, `json`, `focus` (FOCUS 1.2) or `xml` (EN 16931)."""
        with self._http.download(f"{_at('invoices', invoice)}.{kind}") as response:
            return response.read()


class People(_Part):
    def whoami(self) -> Row:
        return mapping(self._http.get(f"{ROOT}/me").body)

    def every(self, kind: str) -> list[Row]:
        """`organisations projects members api-keys secrets`"""
        return self._all(f"{ROOT}/{kind}", {})

    def get(self, kind: str, name: str) -> Answer:
        return self._http.get(_at(kind, name))

    def create(self, kind: str, body: Mapping[str, Any], *, key: str = "") -> Row:
        return mapping(self._http.post(f"{ROOT}/{kind}", body, key=key).body)

    def change(self, kind: str, name: str, body: Mapping[str, Any]) -> Row:
        """PATCH with the version that was just read, so two people never overwrite each other unseen."""
        etag = self.get(kind, name).headers.get("etag", "*")
        return mapping(self._http.send("PATCH", _at(kind, name), body=body, headers={"If-Match": etag}).body)

    def delete(self, kind: str, name: str) -> None:
        self._http.send("DELETE", _at(kind, name))


class Idlewild:
    """All parts of one portal."""

    def __init__(self, *, url: str = "", key: str = "", http: Http | None = None, **options: Any) -> None:
        self.http = http or Http(url=url, key=key, **options)
        self.quotes = Quotes(self.http)
        self.jobs = Jobs(self.http)
        self.artefacts = Artefacts(self.http)
        self.market = Market(self.http)
        self.money = Money(self.http)
        self.people = People(self.http)

    def __enter__(self) -> Idlewild:
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()

    def pages(self, path: str) -> Iterator[Row]:
        """All rows of a list by its path below /api/v1."""
        cursor = ""
        while True:
            page = Page.read(self.http.get(f"{ROOT}/{path.lstrip('/')}", {"cursor": cursor}).body)
            yield from page.items
            cursor = page.next_cursor
            if not cursor:
                return
