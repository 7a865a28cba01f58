from marketplace.models.fingerprints import Fingerprint
from marketplace.models.nodes import Device, Enrolment, Inventory, Node
from marketplace.models.offers import Offer, PriceVersion
from marketplace.models.places import Region, Zone
from marketplace.models.references import ReferencePrice

__all__ = [
    "Device",
    "Enrolment",
    "Fingerprint",
    "Inventory",
    "Node",
    "Offer",
    "PriceVersion",
    "ReferencePrice",
    "Region",
    "Zone",
]
