"""What happens to gradients and weights."""

from __future__ import annotations

from armtrain.ir.op_codes import OpCode, Row

__all__ = ["ROWS"]


ROWS: tuple[Row, ...] = (
    (OpCode.GRAD_SUMSQ, "g:R acc:RW ws:S?", "index:slot", "", "acc[index] = sum of squares, f64"),
    (
        OpCode.CLIP_SCALE,
        "acc:R scale:W",
        "max_norm:norm",
        "",
        "scale f32[1] = min(1, max_norm / (sqrt(sum acc) + 1e-6))",
    ),
    (
        OpCode.SGD_STEP,
        "w:RW g:R momentum:RW? scale:R?",
        "lr:rate momentum:rate dampening:real weight_decay:rate nesterov:flag",
        "",
        "torch.optim.SGD; first step sets the buffer to the gradient",
    ),
    (
        OpCode.ADAM_STEP,
        "w:RW g:R m:RW v:RW scale:R?",
        "lr:rate beta1:part beta2:part eps:rate weight_decay:rate",
        "",
        "torch.optim.Adam; eps is added to the bias-corrected root",
    ),
    (
        OpCode.ADAMW_STEP,
        "w:RW g:R m:RW v:RW scale:R?",
        "lr:rate beta1:part beta2:part eps:rate weight_decay:rate",
        "",
        "torch.optim.AdamW; w is first multiplied by 1 - lr weight_decay",
    ),
    (
        OpCode.RMSPROP_STEP,
        "w:RW g:R square_avg:RW grad_avg:RW? momentum:RW? scale:R?",
        "lr:rate alpha:share eps:rate weight_decay:rate momentum:rate centered:flag",
        "",
        "torch.optim.RMSprop; a variance that rounding makes negative is 0",
    ),
    (
        OpCode.ADAGRAD_STEP,
        "w:RW g:R sum:RW scale:R?",
        "lr:rate lr_decay:rate weight_decay:rate eps:rate",
        "",
        "torch.optim.Adagrad; the rate is lr / (1 + steps before * lr_decay)",
    ),
    (OpCode.CLIP_VALUE, "g:RW", "limit:norm", "", "g = min(max(g, -limit), limit), NaN stays NaN"),
)
