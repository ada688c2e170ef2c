"""The schedules whose factors `make golden` stores from PyTorch."""

from __future__ import annotations

from typing import Any

__all__ = ["LEARNING_RATE", "SCHEDULES", "TIMES"]

LEARNING_RATE, TIMES = 0.5, 29

# Text -> torch's class and arguments at a learning rate of LEARNING_RATE.
SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "constant": ("ConstantLR", {}),
    "constant:factor=0.25,total_iters=9": ("ConstantLR", {"factor": 0.25, "total_iters": 9}),
    "linear": ("LinearLR", {}),
    "linear:start_factor=0.01,end_factor=0.9,total_iters=11": (
        "LinearLR",
        {"start_factor": 0.01, "end_factor": 0.9, "total_iters": 11},
    ),
    "step:step_size=3,gamma=0.5": ("StepLR", {"step_size": 3, "gamma": 0.5}),
    "multistep:milestones=2/5/9": ("MultiStepLR", {"milestones": [2, 5, 9]}),
    "exponential:gamma=0.9": ("ExponentialLR", {"gamma": 0.9}),
    "polynomial": ("PolynomialLR", {}),
    "polynomial:total_iters=12,power=2": ("PolynomialLR", {"total_iters": 12, "power": 2}),
    "cosine:T_max=40": ("CosineAnnealingLR", {"T_max": 40}),
    "cosine:T_max=8,eta_min_factor=0.1": (
        "CosineAnnealingLR",
        {"T_max": 8, "eta_min": 0.1 * LEARNING_RATE},
    ),
    "one_cycle:total_steps=30": ("OneCycleLR", {"max_lr": LEARNING_RATE, "total_steps": 30}),
    "one_cycle:total_steps=31,pct_start=0.1,div_factor=10,final_div_factor=100": (
        "OneCycleLR",
        {
            "max_lr": LEARNING_RATE,
            **{"total_steps": 31, "pct_start": 0.1, "div_factor": 10, "final_div_factor": 100},
        },
    ),
}
