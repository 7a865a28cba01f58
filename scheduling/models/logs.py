"""Logs of attempts, kept after the node is gone: an index of chunks in the object store."""

from django.db import models


class LogChunk(models.Model):
    """Bytes [offset, offset + length) of one stream; append-only."""

    attempt = models.ForeignKey("scheduling.Attempt", models.CASCADE, related_name="log_chunks")
    stream = models.CharField(max_length=6)  # stdout stderr system
    offset = models.BigIntegerField()
    length = models.IntegerField()
    sha256 = models.CharField(max_length=64)
    object_name = models.CharField(max_length=200)
    received_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "stream", "offset"], name="log_chunk_once")]

    def __str__(self) -> str:
        return f"{self.stream}@{self.offset}"
