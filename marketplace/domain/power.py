"""How much one card or core draws, where nothing measures it: the makers' board power, and a published average per core.

Board power is what the maker's data sheet of the model names (watts of one card under load). A core's figure is the middle of what servers of the last years
draw per hardware thread at half load (Cloud Carbon Footprint's coefficients range from 0.7 to 3.5 W per vCPU idle to full): 2.1 W. Both are named as such
beside every figure that is made from them; a model that is not here stays unknown.
"""

CORE_MILLIWATTS = 2_100
BOARD_WATTS = {
    "A10": 150, "A10G": 150, "A100-40GB": 400, "A100-80GB": 400, "A100": 400, "A30": 165, "A40": 300, "A5000": 230, "A6000": 300,
    "B200": 1000, "GH200": 900, "H100": 700, "H100-80GB": 700, "H200": 700, "K80": 300, "L4": 72, "L40": 300, "L40S": 350, "MI250X": 560,
    "MI300X": 750, "P100": 250, "P4": 75, "RTX-4090": 450, "RTX-5090": 575, "RTX-6000": 300, "T4": 70, "V100": 300, "V100-16GB": 300,
    "V100-32GB": 300,
}  # fmt: skip


def of_unit(resource: str, model: str) -> tuple[int | None, str]:
    """(milliwatts of one whole unit, basis): ``nameplate`` for a known card, ``coefficient`` for a core, (None, "") for anything else."""
    if resource == "core":
        return CORE_MILLIWATTS, "coefficient"
    watts = BOARD_WATTS.get(model) if resource == "card" else None
    return (None, "") if watts is None else (watts * 1000, "nameplate")
