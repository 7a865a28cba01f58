"""The one process that serves: pages and API by Django, live pages and wake-ups of agents by websocket.

Pages' sockets come from our own pages only (origin checked) and carry the session; nodes send no origin and sign in by their own secret.
"""

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application
from django.urls import path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
http = get_asgi_application()

# Consumers import models, so they come after the apps are ready.
from billing.gateways.pdf import font_folder
from portal import celery  # noqa: F401  the app whose broker the outbox nudges: without it that would be Celery's default
from scheduling import consumers

font_folder()  # a missing font is an error at start, not a blank invoice

sockets = [
    path("ws/", AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(consumers.websocket_urlpatterns)))),
    path("agent/v1/", URLRouter(consumers.agent_websocket_urlpatterns)),
]

application = ProtocolTypeRouter({"http": http, "websocket": URLRouter(sockets)})
