"""Parses operator names in traces of llama.cpp and similar programs: kind, tensor, layer."""

import re
from functools import lru_cache

_KINDS = (
    *("mul_mat_id", "mul_mat", "matmul", "out_prod", "flash_attn_ext", "flash_attn_back", "flash_attn", "soft_max"),
    *("rms_norm", "group_norm", "l2_norm", "norm", "get_rows", "set_rows", "rope_back", "rope", "diag_mask_inf"),
    *("diag_mask_zero", "conv_transpose_1d", "conv_transpose_2d", "conv_2d", "im2col", "pool_1d", "pool_2d", "upscale"),
    *("ssm_conv", "ssm_scan", "rwkv_wkv6", "rwkv_wkv7", "gated_linear_attn", "timestep_embedding", "leaky_relu"),
    *("argsort", "argmax", "count_equal", "sum_rows", "repeat_back", "repeat", "concat", "swiglu", "geglu", "reglu"),
    *("silu_back", "silu", "gelu_quick", "gelu", "relu", "sigmoid", "tanh", "glu", "unary", "add_id", "add1", "add"),
    *("sub", "mul", "div", "sqrt", "sqr", "log", "sin", "cos", "sum", "mean", "scale", "clamp", "cpy", "cont", "dup"),
    *("reshape", "view", "permute", "transpose", "set", "acc", "pad", "arange", "cross_entropy_loss", "opt_step_adamw"),
)
"""ggml's operators, the prefixes of names; if one is a prefix of another, the longer comes first."""
_LAYER = re.compile(r"(.*?)[-.](\d{1,6})((?:[. ].*)?)", re.DOTALL)
_BLOCK = re.compile(r"(?:blk|layers?|block|h)\.(\d{1,6})\.(.+)", re.DOTALL)


@lru_cache(1 << 16)
def parse_operator_name(name: str) -> dict[str, str | int]:
    """kind, tensor and layer, as far as a name has them: `matmul_ffn_up-12` is matmul, ffn_up, 12.

    Empty for a name that does not begin with an operator's, followed by that of a tensor.
    """
    lower = name.lower()
    kind = next((word for word in _KINDS if lower.startswith(word + "_") or lower == word), None)
    if kind is None:
        return {}
    tensor = name[len(kind) + 1 :]
    if not tensor:
        return {"kind": kind}
    if block := _BLOCK.fullmatch(tensor):
        return {"kind": kind, "tensor": block[2], "layer": int(block[1])}
    if layer := _LAYER.fullmatch(tensor):
        return {"kind": kind, "tensor": layer[1] + layer[3], "layer": int(layer[2])}
    return {"kind": kind, "tensor": tensor}
