"""The green ratio that holds for an offer.

The provider's declared one, else the region's published one, else unknown.
"""

from enum import StrEnum


class Origin(StrEnum):
    DECLARED = "declared"
    REGION = "region"
    UNKNOWN = "unknown"


def effective(declared_ppm: int | None, region_ppm: int | None) -> tuple[int | None, Origin]:
    """(parts per million or None, where it comes from). Unknown stays unknown, never 0."""
    if declared_ppm is not None:
        return declared_ppm, Origin.DECLARED
    if region_ppm is not None:
        return region_ppm, Origin.REGION
    return None, Origin.UNKNOWN
