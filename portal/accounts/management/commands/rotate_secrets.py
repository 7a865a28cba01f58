"""`manage.py rotate_secrets`: re-encrypt tenants' secrets with the first key of IDLEWILD_VAULT_KEYS; then the old keys can go."""

from typing import Any

from django.core.management.base import BaseCommand

from portal import clock
from portal.accounts.services import secrets


class Command(BaseCommand):
    help = "Re-encrypts tenants' secrets with the first key of IDLEWILD_VAULT_KEYS."

    def handle(self, **options: Any) -> None:
        self.stdout.write(f"re-encrypted {secrets.rotate(now=clock.now())} secrets")
