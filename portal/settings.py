"""The one settings file. Every value from outside comes through `portal.env`; docs/operate/settings.md lists each name.

Three profiles (IDLEWILD_PROFILE):

* ``embedded`` (default): what `./dev up` runs. Missing addresses mean the embedded servers in the state folder, secrets are made once.
* ``test``: the pytest plugin sets it, with a private server per run and the scaled lease table.
* ``production``: nothing is guessed; each missing variable is an ImproperlyConfigured that names it, and nothing embedded can start.
"""

import json
import os
from pathlib import Path
from typing import Any

import structlog
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from portal import env
from portal.stack import addresses, places

BASE_DIR = Path(__file__).resolve().parent.parent


def required(name: str, example: str) -> str:
    """A variable that production cannot do without."""
    try:
        return env.text(name, example=example)
    except env.MissingSetting as missing:
        raise ImproperlyConfigured(str(missing)) from None


def table(name: str, defaults: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """A table of knobs; the variable holds JSON with the rows and values to change."""
    given = env.text(name, "")
    if not given:
        return defaults
    try:
        changes = json.loads(given)
        return {row: values | changes.get(row, {}) for row, values in defaults.items()}
    except (ValueError, AttributeError, TypeError):
        raise ImproperlyConfigured(f'{name} takes JSON such as {{"standard": {{"ttl_ms": 15000}}}}') from None


# --- profile and places ------------------------------------------------------------------------------------------------
PROFILE = env.text("IDLEWILD_PROFILE", "embedded")
if PROFILE not in {"embedded", "test", "production"}:
    raise ImproperlyConfigured(f"IDLEWILD_PROFILE is embedded, test or production, not {PROFILE!r}")
PRODUCTION = PROFILE == "production"
TEST = PROFILE == "test"
STATE_DIR = places.state_dir()

DEBUG = False
USE_TZ = True
TIME_ZONE = "UTC"  # unset, Celery logs in another zone
ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
AUTH_USER_MODEL = "accounts.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SILENCED_SYSTEM_CHECKS = ["staticfiles.W004"]  # frontend/dist is made by the build step; pages work without it

# --- secrets -----------------------------------------------------------------------------------------------------------
if PRODUCTION:
    SECRET_KEY = required("IDLEWILD_SECRET_KEY", "$(openssl rand -hex 32)")
    IDLEWILD_VAULT_KEYS = required("IDLEWILD_VAULT_KEYS", "k1:$(openssl rand -hex 32)")
else:
    SECRET_KEY = env.text("IDLEWILD_SECRET_KEY", "") or places.kept_secret(STATE_DIR, "secret.key")
    IDLEWILD_VAULT_KEYS = env.text("IDLEWILD_VAULT_KEYS", "") or "k1:" + places.kept_secret(STATE_DIR, "vault.key")

# --- who may reach us, and at which address ------------------------------------------------------------------------------
IDLEWILD_HOST = env.text("IDLEWILD_HOST", "127.0.0.1")
IDLEWILD_PORT = env.number("IDLEWILD_PORT", 8000)
if PRODUCTION:
    ALLOWED_HOSTS = [host.strip() for host in required("IDLEWILD_ALLOWED_HOSTS", "idlewild.example.org").split(",")]
    IDLEWILD_BASE_URL = required("IDLEWILD_BASE_URL", "https://idlewild.example.org").rstrip("/")
else:
    ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", "testserver", *env.words("IDLEWILD_ALLOWED_HOSTS")]
    IDLEWILD_BASE_URL = env.text("IDLEWILD_BASE_URL", f"http://127.0.0.1:{IDLEWILD_PORT}").rstrip("/")
CSRF_TRUSTED_ORIGINS = [IDLEWILD_BASE_URL]
_SECURE = IDLEWILD_BASE_URL.startswith("https://")
IDLEWILD_TRUSTED_PROXIES = env.words("IDLEWILD_TRUSTED_PROXIES")
if IDLEWILD_TRUSTED_PROXIES:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _SECURE
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_HSTS_SECONDS = 31_536_000 if PRODUCTION and _SECURE else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 20 * 1024 * 1024

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

# --- parts -------------------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "portal.stack.apps.StackConfig",  # before Django's own: its `migrate` runs as the owner of the tables
    *(["portal.stack.testing.apps.StackTestingConfig"] if TEST else []),
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.humanize",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_htmx",
    "django_vite",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "portal.accounts.apps.AccountsConfig",
    "portal.api.apps.ApiConfig",
    "portal.audit.apps.AuditConfig",
    "portal.outbox.apps.OutboxConfig",
    "billing.apps.BillingConfig",
    "marketplace.apps.MarketplaceConfig",
    "scheduling.apps.SchedulingConfig",
    "frontend.apps.FrontendConfig",
    *([] if PRODUCTION else ["portal.demo.apps.DemoConfig"]),
]

MIDDLEWARE = [
    "portal.api.manners.Manners",  # a request id for everything; problem+json below /api/
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "frontend.middleware.Preferences",  # language and time zone of the profile
    "frontend.middleware.HelpfulErrors",  # the house's errors as pages that say what to do
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "frontend" / "templates"],  # before allauth's own pages
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                *(["frontend.context.everywhere"] if (BASE_DIR / "frontend" / "context.py").exists() else []),
            ]
        },
    }
]

# --- PostgreSQL: the only truth ----------------------------------------------------------------------------------------
_EMBEDDED_POSTGRES = f"host={places.postgres_socket_dir(STATE_DIR)} dbname=idlewild"
if PRODUCTION:
    _DATABASE_URL = required("DATABASE_URL", "postgresql://idlewild_app:…@db.internal/idlewild")
else:
    _DATABASE_URL = env.text("DATABASE_URL", f"{_EMBEDDED_POSTGRES} user=idlewild_app")
_migrate_default = "" if PRODUCTION or "DATABASE_URL" in os.environ else f"{_EMBEDDED_POSTGRES} user=idlewild_owner"
IDLEWILD_MIGRATE_DATABASE_URL = env.text(
    "IDLEWILD_MIGRATE_DATABASE_URL", _migrate_default
)  # asked for by `migrate` only
_POOL = env.flag("IDLEWILD_DB_POOL", False)
try:
    DATABASES = {"default": addresses.database(_DATABASE_URL)}
except Exception as problem:
    raise ImproperlyConfigured(f"DATABASE_URL cannot be read: {type(problem).__name__}") from None
DATABASES["default"] |= {
    "CONN_HEALTH_CHECKS": True,
    "CONN_MAX_AGE": 0 if _POOL else 60,
    "TEST": {"NAME": DATABASES["default"].get("NAME")},
}
if _POOL:
    DATABASES["default"]["OPTIONS"]["pool"] = {
        "min_size": 1,
        "max_size": env.number("IDLEWILD_DB_POOL_MAX", 8),
        "timeout": 5,
    }

# --- Redis or Valkey: may vanish ---------------------------------------------------------------------------------------
_EMBEDDED_REDIS = f"unix://{places.valkey_socket(STATE_DIR)}?db=0"
REDIS_URL = (
    required("REDIS_URL", "redis://redis.internal:6379/0") if PRODUCTION else env.text("REDIS_URL", _EMBEDDED_REDIS)
)
try:
    _redis = addresses.redis_forms(REDIS_URL)
except ValueError as problem:
    raise ImproperlyConfigured(str(problem)) from None
IDLEWILD_KEY_PREFIX = env.text("IDLEWILD_KEY_PREFIX", "idlewild")
CACHES = {
    "default": {
        "BACKEND": "portal.softstate.Cache",
        "LOCATION": _redis.client,
        "KEY_PREFIX": f"{IDLEWILD_KEY_PREFIX}:cache",
    }
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {
            "hosts": [_redis.channel_host],
            "prefix": f"{IDLEWILD_KEY_PREFIX}:live",
            "expiry": 30,
            "capacity": 500,
        },
    }
}

CELERY_BROKER_URL = _redis.broker
CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": f"{IDLEWILD_KEY_PREFIX}:celery:"}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_IGNORE_RESULT = True  # results are rows, not messages
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_TIME_LIMIT = 300
CELERY_TASK_DEFAULT_QUEUE = "relay"
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_BEAT_SCHEDULER = "redbeat.RedBeatScheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 2
# redbeat asks for its own names without a prefix; portal/celery.py hands them over. One beat is active, by a lock of 10 s.
REDBEAT = {
    "redbeat_redis_url": _redis.client,
    "redbeat_redis_options": {"socket_timeout": 10},
    "redbeat_key_prefix": f"{IDLEWILD_KEY_PREFIX}:beat:",
    "redbeat_lock_timeout": 10,
}

# --- files -------------------------------------------------------------------------------------------------------------
IDLEWILD_S3_BUCKET = env.text("IDLEWILD_S3_BUCKET", "")
IDLEWILD_MEDIA_ROOT = env.text("IDLEWILD_MEDIA_ROOT", "")
if PRODUCTION and not (IDLEWILD_S3_BUCKET or IDLEWILD_MEDIA_ROOT):
    raise ImproperlyConfigured(
        "IDLEWILD_S3_BUCKET is not set, nor is IDLEWILD_MEDIA_ROOT (a folder shared by all web and worker machines); "
        "for example IDLEWILD_S3_BUCKET=idlewild"
    )
MEDIA_ROOT = Path(IDLEWILD_MEDIA_ROOT) if IDLEWILD_MEDIA_ROOT else STATE_DIR / "media"
_objects: dict[str, Any] = {
    "BACKEND": "django.core.files.storage.FileSystemStorage",
    "OPTIONS": {"location": str(MEDIA_ROOT)},
}
if IDLEWILD_S3_BUCKET:
    _objects = {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {
            "bucket_name": IDLEWILD_S3_BUCKET,
            "endpoint_url": env.text("IDLEWILD_S3_ENDPOINT_URL", "") or None,
            "region_name": env.text("IDLEWILD_S3_REGION", "") or None,
            "file_overwrite": True,
        },
    }
_DIST = BASE_DIR / "frontend" / "dist"
STORAGES = {
    "default": _objects,
    "staticfiles": {
        "BACKEND": "portal.staticfiles.ConsoleStorage"
        if PRODUCTION
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
STATIC_URL = "/static/"
STATIC_ROOT = Path(env.text("IDLEWILD_STATIC_ROOT", str(STATE_DIR / "static")))
STATICFILES_DIRS = [("console", _DIST)] if _DIST.is_dir() else []
WHITENOISE_USE_FINDERS = not PRODUCTION  # embedded: straight from the folders, nothing to collect
WHITENOISE_AUTOREFRESH = False
WHITENOISE_IMMUTABLE_FILE_TEST = r"(^/static/console/assets/)|(\.[0-9a-f]{12}\.)"
if not PRODUCTION and STATE_DIR.is_dir():  # WhiteNoise warns about a folder that is not there
    STATIC_ROOT.mkdir(exist_ok=True)
DJANGO_VITE = {
    "default": {
        "dev_mode": TEST and not (_DIST / "manifest.json").exists(),
        "static_url_prefix": "console",
        "manifest_path": _DIST / "manifest.json",
    }
}
IDLEWILD_GET_DIR = Path(env.text("IDLEWILD_GET_DIR", str(STATE_DIR / "get")))  # our own wheels, served at /get/
IDLEWILD_FONT_DIR = env.text("IDLEWILD_FONT_DIR", "")

# --- mail --------------------------------------------------------------------------------------------------------------
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.text("IDLEWILD_EMAIL_FROM", "Idlewild <idlewild@localhost>")
EMAIL_FILE_PATH = str(STATE_DIR / "mail")
_email_url = (
    required("EMAIL_URL", "smtp://user:password@mail.example.org:587?tls=1")
    if PRODUCTION
    else env.text("EMAIL_URL", "")
)
if PRODUCTION:
    required("IDLEWILD_EMAIL_FROM", "'Idlewild <no-reply@idlewild.example.org>'")
IDLEWILD_MAIL_TO_FILES = not _email_url  # the page that sent a mail shows its link
try:
    EMAIL_BACKEND, _mail = addresses.mail(_email_url)
except ValueError as problem:
    raise ImproperlyConfigured(str(problem)) from None
EMAIL_HOST, EMAIL_PORT = _mail["host"], _mail["port"]
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail["user"], _mail["password"]
EMAIL_USE_TLS, EMAIL_USE_SSL, EMAIL_TIMEOUT = _mail["tls"], _mail["ssl"], 20

# --- signing in --------------------------------------------------------------------------------------------------------
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
if TEST:
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a test signs in hundreds of times
ACCOUNT_FORMS = {"signup": "frontend.forms.signup.SignupForm"}  # a person and their organisation
CSRF_FAILURE_VIEW = "frontend.views.errors.csrf_failed"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "optional"
ACCOUNT_UNIQUE_EMAIL = True
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if _SECURE else "http"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not PRODUCTION
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"

# --- REST --------------------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.accounts.authentication.KeyAuth",
        "portal.accounts.authentication.SessionAuth",
    ],
    "DEFAULT_THROTTLE_CLASSES": ["portal.api.throttling.ByCaller"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["portal.api.parsers.PlainJSON"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "EXCEPTION_HANDLER": "portal.api.errors.problem_handler",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Idlewild",
    "DESCRIPTION": "Capacity, jobs and what they cost.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SWAGGER_UI_DIST": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "portal.api.schema.declare_problems",
    ],
}

# --- languages ---------------------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("简体中文"))]
LOCALE_PATHS = [BASE_DIR / "frontend" / "locale"]
USE_I18N = True

# --- money -------------------------------------------------------------------------------------------------------------
IDLEWILD_CREDIT_LIMIT = env.text("IDLEWILD_CREDIT_LIMIT", "500.00")  # per organisation, in its currency
IDLEWILD_PLATFORM_FEE_PPM = env.number("IDLEWILD_PLATFORM_FEE_PPM", 100_000)
IDLEWILD_TAX_PPM = env.number("IDLEWILD_TAX_PPM", 0)
IDLEWILD_ISSUER_NAME = env.text("IDLEWILD_ISSUER_NAME", "Idlewild")  # who issues invoices
IDLEWILD_ISSUER_ADDRESS = env.text("IDLEWILD_ISSUER_ADDRESS", "")  # lines parted by |
IDLEWILD_ISSUER_COUNTRY = env.text("IDLEWILD_ISSUER_COUNTRY", "")  # ISO 3166, two letters
IDLEWILD_ISSUER_TAX_ID = env.text("IDLEWILD_ISSUER_TAX_ID", "")
IDLEWILD_ISSUER_BANK = env.text("IDLEWILD_ISSUER_BANK", "")  # bank and account, printed on fapiao records
IDLEWILD_PAYOUT_HOLD_DAYS = env.number("IDLEWILD_PAYOUT_HOLD_DAYS", 7)  # after an invoice was paid
IDLEWILD_PAYOUT_MINIMUM = env.text("IDLEWILD_PAYOUT_MINIMUM", "20.00")  # in each currency
STRIPE_SECRET_KEY = env.text("STRIPE_SECRET_KEY", "")
STRIPE_WEBHOOK_SECRET = env.text("STRIPE_WEBHOOK_SECRET", "")
IDLEWILD_STRIPE_API_BASE = env.text("IDLEWILD_STRIPE_API_BASE", "")

# --- machines ----------------------------------------------------------------------------------------------------------
IDLEWILD_ALLOW_UNSAFE_NODES = env.flag("IDLEWILD_ALLOW_UNSAFE_NODES", not PRODUCTION)
IDLEWILD_VIRTUAL_CARDS = env.number("IDLEWILD_VIRTUAL_CARDS", 0 if PRODUCTION else 2)
IDLEWILD_UNCHECKED_FINGERPRINTS = env.flag("IDLEWILD_UNCHECKED_FINGERPRINTS", not PRODUCTION)
if PRODUCTION and (IDLEWILD_ALLOW_UNSAFE_NODES or IDLEWILD_VIRTUAL_CARDS):
    _name = "IDLEWILD_ALLOW_UNSAFE_NODES" if IDLEWILD_ALLOW_UNSAFE_NODES else "IDLEWILD_VIRTUAL_CARDS"
    raise ImproperlyConfigured(
        f"{_name} must be unset or 0 in production: tenants would pay for what is not there or not isolated"
    )

# class → times in milliseconds. deadline: from the sending of a renewal, the agent freezes; lapse = TTL + margin, from the server's stamp.
LEASE_CLASSES_REAL = {
    "fast": {
        "ttl_ms": 6_000, "renew_ms": 1_500, "deadline_ms": 5_000, "lapse_ms": 7_000, "suspect_ms": 3_500, "accept_ms": 2_000,
        "sweep_ms": 500, "usage_ms": 60_000, "frozen_kill_ms": 600_000,
    },
    "standard": {
        "ttl_ms": 15_000, "renew_ms": 3_000, "deadline_ms": 13_000, "lapse_ms": 17_000, "suspect_ms": 7_000, "accept_ms": 3_000,
        "sweep_ms": 500, "usage_ms": 60_000, "frozen_kill_ms": 600_000,
    },
    "tolerant": {
        "ttl_ms": 60_000, "renew_ms": 15_000, "deadline_ms": 55_000, "lapse_ms": 65_000, "suspect_ms": 32_000, "accept_ms": 10_000,
        "sweep_ms": 500, "usage_ms": 60_000, "frozen_kill_ms": 600_000,
    },
}  # fmt: skip
LEASE_CLASS_OF_TESTS = {
    "ttl_ms": 3_000, "renew_ms": 600, "deadline_ms": 2_400, "lapse_ms": 3_600, "suspect_ms": 1_400, "accept_ms": 2_000,
    "sweep_ms": 200, "usage_ms": 2_000, "frozen_kill_ms": 10_000,
}  # fmt: skip
DEMO_USAGE_MS = 5_000  # the embedded profile meters every five seconds, so that costs are seen to grow; its leases are the real ones
_LEASE_CLASSES = {
    "production": LEASE_CLASSES_REAL,
    "embedded": {name: row | {"usage_ms": DEMO_USAGE_MS} for name, row in LEASE_CLASSES_REAL.items()},
    "test": {name: dict(LEASE_CLASS_OF_TESTS) for name in LEASE_CLASSES_REAL},
}
IDLEWILD_LEASE_CLASSES = table("IDLEWILD_LEASE_CLASSES", _LEASE_CLASSES[PROFILE])
IDLEWILD_FAST_CLASS = {"window_s": 3_600, "renewals_at_least": 200, "sync_p99_ms": 500}

# what → so many per so many seconds, counted per `of`
IDLEWILD_RATE_LIMITS = table(
    "IDLEWILD_RATE_LIMITS",
    {
        "sign_in": {"count": 5, "seconds": 60, "of": "address and account"},
        "read": {"count": 600, "seconds": 60, "of": "key"},
        "write": {"count": 120, "seconds": 60, "of": "key"},
        "quote": {"count": 60, "seconds": 60, "of": "key"},
        "submit": {"count": 300, "seconds": 60, "of": "organisation"},
        "enroll": {"count": 10, "seconds": 3_600, "of": "address"},
        "agent": {"count": 10, "seconds": 1, "of": "node"},
    },
)
if not PRODUCTION:
    # The demo enrolls four nodes from one address, and a person starts it over.
    IDLEWILD_RATE_LIMITS["enroll"] = {"count": 1_000, "seconds": 3_600, "of": "address"}
ACCOUNT_RATE_LIMITS = {"login_failed": "5/m/ip,5/5m/key"} if not TEST else False
IDLEWILD_PRIVATE_WEBHOOKS = (
    not PRODUCTION
)  # also to http and to private addresses: only where nothing is to be found behind us
IDLEWILD_CHECKPOINT_LEAST_S = 1 if TEST else 60  # the shortest interval a job may ask for
IDLEWILD_SWEEP_EVERY_S = min(row["sweep_ms"] for row in IDLEWILD_LEASE_CLASSES.values()) / 1_000

IDLEWILD_ENGINE = env.text("IDLEWILD_ENGINE", "auto")  # auto numpy moocore numba: the loops of the decision engine

# --- logs: a line a thing; JSON in production ----------------------------------------------------------------------------
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "structlog.stdlib.ProcessorFormatter",
            "processor": structlog.processors.JSONRenderer()
            if PRODUCTION
            else structlog.dev.ConsoleRenderer(colors=False),
            "foreign_pre_chain": [
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
            ],
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "idlewild": {"level": env.text("IDLEWILD_LOG_LEVEL", "INFO")},
        "django.request": {"level": "ERROR"},
        "celery.app.trace": {"level": "WARNING"},
    },
}
