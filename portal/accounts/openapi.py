"""How the two sign-ins are described in OpenAPI (loaded by ``apps.py: ready()``)."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class KeyScheme(OpenApiAuthenticationExtension):
    target_class = "portal.accounts.authentication.KeyAuth"
    name = "key"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "idw_<prefix>_<secret>"}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "portal.accounts.authentication.SessionAuth"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
