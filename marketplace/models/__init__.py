from marketplace.models.energy import EnergyHour
from marketplace.models.fingerprints import CheckedRun, Fingerprint
from marketplace.models.nodes import Device, Enrolment, Inventory, Node
from marketplace.models.offers import Offer, PriceVersion
from marketplace.models.places import Region, Zone
from marketplace.models.references import ReferencePrice

__all__ = [
    "CheckedRun",
    "Device",
    "EnergyHour",
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
