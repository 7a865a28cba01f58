"""What others rank cards by: peak FP16, FP32, bandwidth, the plain product, its root. Columns: TFLOPS FP32, TFLOPS FP16, GB/s, $ per hour."""

from collections.abc import Callable

CARDS = {"k80": (4.37, 4.37, 240.0, 0.45), "p100": (9.3, 18.7, 732.0, 1.46), "v100": (15.7, 125.0, 900.0, 2.48)}

PREDICTORS: dict[str, Callable[[str], float]] = {
    "FP16 × bandwidth": lambda card: CARDS[card][1] * CARDS[card][2],
    "FP16": lambda card: CARDS[card][1],
    "√(FP16 × bandwidth)": lambda card: (CARDS[card][1] * CARDS[card][2]) ** 0.5,
    "FP32": lambda card: CARDS[card][0],
    "bandwidth": lambda card: CARDS[card][2],
}
