"""/errors: what each stable error code means and what to do about it. Open to everybody."""

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.api.codes import CODES
from portal.kit.errors import NotFound


class ErrorOut(serializers.Serializer):
    code = serializers.CharField()
    help = serializers.CharField()


class ErrorsOut(serializers.Serializer):
    items = ErrorOut(many=True)


class Errors(APIView):
    authentication_classes = []
    permission_classes = []

    @extend_schema(responses=ErrorsOut, operation_id="errors_list")
    def get(self, request: Any) -> Response:
        return Response({"items": [{"code": code, "help": words} for code, words in CODES.items()]})


class OneError(APIView):
    authentication_classes = []
    permission_classes = []

    @extend_schema(responses=ErrorOut, operation_id="errors_get")
    def get(self, request: Any, code: str) -> Response:
        if code not in CODES:
            raise NotFound(_("There is no such error code."))
        return Response({"code": code, "help": CODES[code]})
