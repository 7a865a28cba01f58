"""The words on documents, in English and Chinese.

A document is frozen: its words belong to its template, not to the catalogue of the console, which may be reworded at any time. A change here needs a
new ``TEMPLATE`` number, so that an old document is made again to the same byte.
"""

from collections.abc import Mapping

TEMPLATE = 2
LANGUAGES = ("en", "zh-hans")

WORDS: Mapping[str, tuple[str, str]] = {
    "invoice": ("Invoice", "账单"),
    "demo": ("Demo history: not a real charge", "演示历史：非真实收费"),
    "number": ("Invoice number", "账单编号"),
    "issue_date": ("Issued", "开具日期"),
    "due_date": ("Due", "到期日"),
    "period": ("Billing period", "账期"),
    "period_start": ("Period from", "账期起"),
    "period_end": ("Period until", "账期止"),
    "timezone": ("Time zone", "时区"),
    "period_hours": ("Period hours", "账期小时数"),
    "tenant": ("Billed to", "租户"),
    "issuer": ("Issued by", "开具方"),
    "tax_id": ("Tax id", "统一社会信用代码 / 税号"),
    "line": ("No.", "序号"),
    "project": ("Project", "项目"),
    "department": ("Department", "部门"),
    "provider": ("Provider", "供应方"),
    "place": ("Region / zone", "区域 / 可用区"),
    "region": ("Region", "区域"),
    "zone": ("Zone", "可用区"),
    "item": ("Item", "计费项"),
    "unit": ("Unit", "单位"),
    "quantity": ("Quantity", "用量"),
    "unit_price": ("Unit price", "单价"),
    "list_amount": ("List amount", "目录价"),
    "discount": ("Discount", "折扣"),
    "amount": ("Amount", "应付"),
    "green_ratio": ("Green share", "绿电比例"),
    "price_version": ("Price version", "价格版本"),
    "note": ("Note", "备注"),
    "node": ("Node", "节点"),
    "attempt": ("Attempt", "尝试"),
    "reason": ("Not billed because", "不计费原因"),
    "correction_of": ("Correction of", "更正账期"),
    "tier": ("Tier", "阶梯"),
    "virtual": ("virtual card (no hardware)", "虚拟卡（无硬件）"),
    "first_at": ("From (UTC)", "起（UTC）"),
    "last_at": ("Until (UTC)", "止（UTC）"),
    "qty_us": ("Resource-microseconds", "资源微秒"),
    "reverse_charge": (
        "Reverse charge: the recipient owes the tax (Article 196 of Council Directive 2006/112/EC)",
        "反向征税：由受票方缴纳增值税（欧盟理事会指令 2006/112/EC 第 196 条）",
    ),
    "subtotal": ("Subtotal", "小计"),
    "tax": ("Tax", "税额"),
    "total": ("Total", "合计"),
    "credit_used": ("Credit used", "余额抵扣"),
    "payable": ("Payable", "应付总额"),
    "to_credit": ("Added to your credit balance", "转入余额"),
    "currency": ("Currency", "币种"),
    "hours": ("hours", "小时"),
    "unknown": ("unknown", "未知"),
    "known_for": ("known for", "已知份额"),
    "page": ("Page", "页"),
    "recompute": (
        "Every line lists its usage records and can be recomputed: idlewild invoice verify",
        "每一行均列出其用量记录，可复算：idlewild invoice verify",
    ),
    "core-hour": ("core-hour", "核时"),
    "card-hour": ("card-hour", "卡时"),
    "GiB-hour": ("GiB-hour", "GiB·时"),
    "GB": ("GB", "GB"),
    "core": ("Cores", "CPU 核"),
    "card": ("Card", "卡"),
    "memory_gib": ("Memory", "内存"),
    "storage_gib": ("Storage", "存储"),
    "network_byte": ("Data transfer", "数据传输"),
    "node_lost": ("node lost", "节点失联"),
    "node_rebooted": ("node rebooted", "节点重启"),
    "not_accepted": ("assignment not accepted", "节点未接受任务"),
    "node_drained": ("node drained", "节点排空"),
    "device_error": ("device error", "设备故障"),
    "start_failed": ("start failed", "启动失败"),
    "start_timeout": ("start timed out", "启动超时"),
    "report_forged": ("forged report", "上报伪造"),
    "platform_fault": ("platform fault", "平台故障"),
    "upload_failed": ("upload failed", "上传失败"),
}
"""key → (English, Chinese)."""


STATEMENT: Mapping[str, tuple[str, str]] = {
    "monthly": ("Monthly statement", "月度账单"),
    "split": ("Split bill", "分账账单"),
    "month": ("Billing period", "账期"),
    "when": ("Time", "时间"),
    "invoice": ("Invoice number", "账单编号"),
    "tenant": ("Tenant", "租户"),
    "department": ("Department", "部门"),
    "project": ("Project", "项目"),
    "region": ("Region", "区域"),
    "node": ("Node", "节点"),
    "provider": ("Provider", "供应方"),
    "item": ("Item", "计费项"),
    "quantity": ("Quantity", "用量"),
    "unit": ("Unit", "单位"),
    "list_amount": ("List amount", "目录价"),
    "discount": ("Discount", "折扣"),
    "amount": ("Amount", "应付"),
    "tax": ("Tax", "税额"),
    "credit": ("Credit used", "代金券抵扣"),
    "paid": ("Paid", "现金支付"),
    "open": ("Outstanding", "未结清"),
    "currency": ("Currency", "币种"),
    "green_ratio": ("Green share", "绿电比例"),
    "energy_kwh": ("Energy, kWh", "用电量（kWh）"),
    "carbon_kg": ("Carbon, kg CO2e", "碳排（kg CO2e）"),
    "basis": ("Basis of energy", "核算依据"),
    "reason": ("Not billed because", "不计费原因"),
    "net": ("Net cost (with tax)", "净值（含税）"),
    "moved": ("Moved by rule", "拆分金额"),
    "final": ("Final cost", "最终分配成本"),
    "share": ("Share", "占比"),
    "rule": ("Rule", "分摊规则"),
    "shared": ("shared costs", "公共成本分摊"),
    "receipt": ("Receipt", "收据"),
    "credit_note": ("Credit note", "贷项通知单"),
    "tenant_of": ("For", "租户"),
    "paid_how": ("By", "方式"),
    "paid_by_payment": ("payment", "付款"),
    "paid_by_wallet": ("wallet", "钱包"),
    "paid_by_credit": ("credit balance", "余额抵扣"),
    "paid_amount": ("Amount", "金额"),
    "why": ("Reason", "原因"),
    "off_open": ("No longer to be paid", "冲减未付"),
    "no_department": ("without department", "未分部门"),
}
"""Words of statements, which are made when they are asked for: key → (English, Chinese)."""


def statement_words(language: str) -> dict[str, str]:
    """The words of statements in one language, with those of documents for items, units and reasons."""
    column = LANGUAGES.index(language) if language in LANGUAGES else 0
    return words(language) | {key: pair[column] for key, pair in STATEMENT.items()}


def words(language: str) -> dict[str, str]:
    """All words in one language; English for any language we do not print in."""
    column = LANGUAGES.index(language) if language in LANGUAGES else 0
    return {key: pair[column] for key, pair in WORDS.items()}
