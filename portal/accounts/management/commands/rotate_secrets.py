"""`manage.py rotate_secrets`: seal all stored secrets with the newest key of IDLEWILD_VAULT_KEYS, so that older keys can be dropped."""

from typing import Any

from django.core.management.base import BaseCommand

from portal import clock
from portal.accounts.services import secrets, webhooks


class Command(BaseCommand):
    help = "Re-encrypts secrets that an older key of IDLEWILD_VAULT_KEYS sealed."

    def handle(self, **options: Any) -> None:
        self.stdout.write(f"{secrets.rotate(now=clock.now()) + webhooks.reseal()} secrets sealed anew")
