"""Billing's celery tasks call their service with the present; the admin only looks."""

import pytest
from django.contrib import admin
from django.urls import reverse

from billing import models, tasks
from billing.services import usage
from tests.billing.books import a_fact, a_tenant, october

pytestmark = pytest.mark.django_db


def test_the_tasks_run_on_empty_and_on_full_books():
    for _ in range(2):
        for task in (tasks.close, tasks.past_due, tasks.expire_holds, tasks.prove):
            task()
        usage.record(fact=(fact := a_fact(a_tenant())), now=fact.ended_at)


def test_p37_the_admin_shows_and_changes_nothing(staff):
    tenant = a_tenant()
    usage.record(fact=(fact := a_fact(tenant)), now=fact.ended_at)
    usage.end_attempt(
        attempt_ref="att_1",
        reason="finished",
        fault="none",
        billed=True,
        message="",
        ended_at=fact.ended_at,
        now=fact.ended_at,
    )
    october(tenant)
    staff.user.is_staff = staff.user.is_superuser = True
    staff.user.save()
    web = staff.browser()
    ours = [model for model in admin.site._registry if model._meta.app_label == "billing"]
    assert models.Invoice in ours
    for model in ours:
        name = f"admin:billing_{model._meta.model_name}"
        assert web.get(reverse(f"{name}_changelist")).status_code == 200
        assert web.get(reverse(f"{name}_add")).status_code == 403
        row = model._default_manager.first()
        if row is not None:
            assert web.get(reverse(f"{name}_change", args=[row.pk])).status_code == 200
            assert web.post(reverse(f"{name}_change", args=[row.pk]), {}).status_code == 403
            assert web.post(reverse(f"{name}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
