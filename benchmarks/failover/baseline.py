"""What nobody can be faster than, and what others take.

A silent node may only be replaced when its own watchdog has surely stopped the job: the lease's time to live plus the margin for a late message. That floor is
the platform's own table; Kubernetes is the common point of comparison: its taint-based eviction waits 300 s by default (`tolerationSeconds` of
`node.kubernetes.io/unreachable`, Kubernetes documentation, "Taints and Tolerations").
"""

from typing import Any

KUBERNETES_EVICTS_AFTER_S = 300


def floors() -> dict[str, Any]:
    """Seconds until a lease lapses, by class, and what a default Kubernetes waits."""
    from portal.settings import LEASE_CLASSES_REAL

    lapse = {name: row["lapse_ms"] / 1000 for name, row in LEASE_CLASSES_REAL.items()}
    return {"lease_lapses_after_s": lapse, "kubernetes_evicts_after_s": KUBERNETES_EVICTS_AFTER_S}
