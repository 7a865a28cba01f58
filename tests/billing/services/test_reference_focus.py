"""A real FOCUS file with faults (FinOps Foundation's sample, FOCUS 1.0) is rejected row by row."""

import gzip

from billing.domain import focus_check
from tests import reference


def test_a_real_file_with_faults_is_rejected_row_by_row():
    with gzip.open(reference.path("billing/focus_1.0_sample_rows1-500.csv.gz"), "rt") as sample:
        problems = focus_check.check(sample.read())
    assert len({problem.row for problem in problems}) == 501, "the header and each of 500 rows"
    said = [str(problem) for problem in problems]
    assert said[0] == "row 1, Id: FOCUS 1.2 has no such column: one of your own begins with x_"
    assert "row 2, ChargeClass: a null is an empty field without quotes, not NULL" in said
    assert "row 2, ChargePeriodEnd: '2024-09-18 23:00:00' is not a time in UTC: write 2026-10-01T00:00:00Z" in said
    assert "row 3, ListCost: 0.00001605990 is not ListUnitPrice × PricingQuantity = 0.00001605992000" in said
