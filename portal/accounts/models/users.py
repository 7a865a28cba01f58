"""People who sign in."""

from typing import ClassVar

from django.contrib.auth.models import AbstractUser, BaseUserManager
from django.db import models

from portal import clock, ids


class UserManager(BaseUserManager["User"]):
    """Makes users by e-mail address."""

    def create_user(self, email: str, password: str | None = None, **fields: object) -> "User":
        user = self.model(email=self.normalize_email(email).lower(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: object) -> "User":
        return self.create_user(email, password, is_staff=True, is_superuser=True, is_operator=True, **fields)


def new_user_id() -> str:
    return ids.public_id("usr")


class User(AbstractUser):
    """A person. `is_operator` opens the operator's pages; it is a flag, not a role."""

    username = None  # type: ignore[assignment]  # people sign in by e-mail
    public_id = models.CharField(max_length=32, unique=True, default=new_user_id, editable=False)
    email = models.EmailField(unique=True)
    name = models.CharField(max_length=120, blank=True)
    is_operator = models.BooleanField(default=False)
    language = models.CharField(max_length=10, blank=True)  # "" = as the browser asks
    time_zone = models.CharField(max_length=40, default="UTC")
    date_joined = models.DateTimeField(default=clock.now)
    theme = models.CharField(max_length=5, blank=True)  # "", light, dark

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects = UserManager()  # type: ignore[assignment,misc]

    def __str__(self) -> str:
        return self.name or self.email
