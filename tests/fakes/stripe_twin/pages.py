"""The pages that the vendor hosts: paying, one's cards, a provider's form. Plainly marked: nothing here is real, and no money moves.

A card is chosen from a list, so nobody is tempted to type in a real one.
"""

import re
from html import escape
from typing import Any
from urllib.parse import parse_qs

from tests.fakes.stripe_twin import amounts, rules
from tests.fakes.stripe_twin.books import Refused

Reply = tuple[int, bytes, dict[str, str]]
CARDS = {
    rules.GOOD: "4242 … 4242: succeeds · 成功",
    rules.DECLINED: "4000 … 0002: is declined · 被拒绝",
    rules.SLOW: "4000 … 0077: takes its time · 处理中",
}
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title><style>
body{{font:16px/1.5 system-ui,"Noto Sans CJK SC",sans-serif;margin:0;background:#f4f4f2;color:#1c1c1c}}
.mark{{background:#7a4b00;color:#fff;padding:.6rem 1rem;text-align:center}}
main{{max-width:26rem;margin:2rem auto;padding:1.5rem;background:#fff;border:1px solid #ccc;border-radius:.5rem}}
h1{{font-size:1.2rem;margin:0 0 .25rem}}.sum{{font-size:1.8rem;margin:.25rem 0 1rem}}
label{{display:block;padding:.5rem .75rem;border:1px solid #ccc;border-radius:.4rem;margin-bottom:.5rem}}
button,a.back{{display:block;width:100%;box-sizing:border-box;padding:.7rem;border-radius:.4rem;text-align:center;font:inherit;margin-top:.75rem}}
button{{background:#0557a5;color:#fff;border:0}}a.back{{color:#0557a5;border:1px solid #0557a5;text-decoration:none}}.no{{color:#b3261e}}
</style></head><body><div class="mark">Stand-in for the payment service: no real money moves.
 · 支付服务的本地替身：不会发生真实扣款。</div>
<main>{main}</main></body></html>"""


def answer(twin: Any, method: str, path: str, body: bytes) -> Reply:
    """A page, or 404."""
    if path == "/favicon.ico":
        return 204, b"", {}
    form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
    for pattern, view in ((r"/c/pay/(\w+)", _pay), (r"/onboard/(\w+)", _onboard), (r"/p/session/(\w+)", _portal)):
        match = re.fullmatch(pattern, path.partition("?")[0])
        if match:
            try:
                with twin.books.lock:
                    reply = view(twin, method, match.group(1), form)
            except Refused as refused:
                return _page("Not possible", f"<h1>Not possible</h1><p>{escape(str(refused))}</p>", 404)
            twin.hooks.nudge()
            return reply
    return _page("Nothing here", "<h1>Nothing here</h1>", 404)


def _page(title: str, main: str, status: int = 200) -> Reply:
    return status, PAGE.format(title=title, main=main).encode(), {}


def _to(url: str) -> Reply:
    return 303, b"", {"Location": url}


def _pay(twin: Any, method: str, wanted: str, form: dict[str, str]) -> Reply:
    session = twin.books.get(wanted, "checkout.session")
    problem = ""
    if session["status"] != "open":
        return _page("Over", f"<h1>This page is over: {escape(session['status'])}</h1>")
    if method == "POST":
        try:
            rules.fulfil(twin.books, wanted, form.get("card", rules.GOOD), answered=True)
            return _to(str(session["success_url"]).replace("{CHECKOUT_SESSION_ID}", wanted))
        except Refused as refused:
            problem = f'<p class="no" role="alert">{escape(str(refused))}</p>'
    rows = "".join(
        f"<p>{escape(row['price_data']['product_data']['name'])}</p>" for row in twin.books.notes[wanted]["rows"]
    )
    total = (
        amounts.words(session["amount_total"], session["currency"]) if session["mode"] == "payment" else "Save a card"
    )
    cards = "".join(
        f'<label><input type="radio" name="card" value="{number}"{" checked" if number == rules.GOOD else ""}> {words}</label>'
        for number, words in CARDS.items()
    )
    button = "Pay · 支付" if session["mode"] == "payment" else "Save the card · 保存银行卡"
    main = (
        f'<h1>Checkout · 收银台</h1>{rows}<p class="sum">{total}</p>{problem}<form method="post">{cards}<button>{button}</button></form>'
        f'<a class="back" href="{escape(str(session["cancel_url"] or "/"))}">Back · 返回</a>'
    )
    return _page("Checkout (stand-in)", main)


def _onboard(twin: Any, method: str, wanted: str, form: dict[str, str]) -> Reply:
    note = twin.books.notes.get(wanted)
    if note is None:
        raise Refused(404, "resource_missing", "This link is unknown or was used.")
    if method == "POST":
        rules.verify_account(twin.books, note["account"], outcome=form.get("outcome", "enabled"))
        return _to(note["return_url"])
    choices = {
        "enabled": "Everything is in order · 资料齐全",
        "pending": "Still being looked at · 审核中",
        "due": "A document is missing · 缺少资料",
    }
    labels = "".join(
        f'<label><input type="radio" name="outcome" value="{value}"{" checked" if value == "enabled" else ""}> {words}</label>'
        for value, words in choices.items()
    )
    return _page(
        "Onboarding (stand-in)",
        f'<h1>Who gets the money? · 收款人资料</h1><form method="post">{labels}<button>Send · 提交</button></form>',
    )


def _portal(twin: Any, method: str, wanted: str, form: dict[str, str]) -> Reply:
    session = twin.books.get(wanted, "billing_portal.session")
    customer = session["customer"]
    if method == "POST":
        made = rules.payment_method(twin.books, {"type": "card"}, form.get("card", rules.GOOD))
        rules.attach(twin.books, made["id"], {"customer": customer})
        rules.change_customer(twin.books, customer, {"invoice_settings": {"default_payment_method": made["id"]}})
    mine = [row for row in twin.books.all("payment_method") if row["customer"] == customer]
    rows = (
        "".join(f"<p>Visa … {row['card']['last4']}</p>" for row in mine)
        or "<p>No card is saved. · 没有保存的银行卡</p>"
    )
    main = (
        f'<h1>Your cards · 银行卡</h1>{rows}<form method="post"><button>Save the test card and use it for invoices · 保存测试卡并自动付款</button></form>'
        f'<a class="back" href="{escape(str(session["return_url"] or "/"))}">Back · 返回</a>'
    )
    return _page("Portal (stand-in)", main)
