"""Which kernels run on the matrix units of a GPU, and which operators could, by their names.

No profiler records this. NVIDIA's libraries put the shape of the instruction into the name of a kernel (`s884` of
Volta, `s1688` of Turing, `s16816` and `tensor16x8x8` of Ampere, warp groups of Hopper), CUTLASS the class of operation
(`tensorop`, `simt`), AMD's Tensile and Composable Kernel the shape of the matrix instruction (`MI16x16x1`, `xdl`).
A kernel without such a name counts as not using them: kernels of Triton, for example.
"""

import re
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ..core.functions import functions_of
from ..core.memo import memoize
from ..core.slice_selection import device_work_of

_USES = re.compile(
    r"""
    # The shape of the instruction, behind a letter for the type of the sum: m8n8k4, m16n8k8, m8n8k16, m16n8k16 …
    (?<![a-zA-Z0-9])[a-z]{1,2}(?:884|1688|8816|8832|16816|16832|16864|161616)(?![0-9])
    | tensor\d+x\d+x\d+
    # The instructions themselves, and CUTLASS's class of operation.
    | (?<![a-z])(?:[hidbq]mma|w?gmma|utcmma|mfma|wmma)(?![a-z])
    | (?<![a-zA-Z])tensorop | MmaTensorOp | TensorOpMultiplicand | OpClass(?:Wmma)?TensorOp
    # Libraries that have no other kernels: cuBLAS from Hopper on, attention, what NVIDIA's PyProf knows of cuDNN.
    | (?<![a-z])nvjet_ | xmma_ | warpgroupsize\d
    | flash_(?:fwd|bwd|fprop|dgrad)(?:_\w+)?_(?:kernel|wmma|wgmma) | flash_(?:fwd|bwd)_kernel | FlashAttn(?:Fwd|Bwd)
    | fmha_(?:v2_|fprop|dgrad|cutlass[FB]_(?:bf?16|f16)_\w*sm(?:70|75|80|90)|cutlass[FB]_f32_\w*sm(?:80|90))
    | dgrad_1x1_stride_2x2 | first_layer_wgrad_kernel | conv1x1 | conv2d_c1_k1 | direct_group
    # AMD: Tensile with a matrix instruction, Composable Kernel and MIOpen's own kernels for the same units.
    | Cijk_\w*_MI\d+x\d+x\d+ | [xX]dl(?:ops|_|[A-Z]) | igemm_\w+_gtcx
    """,
    re.VERBOSE,
)
_DOES_NOT = re.compile(r"(?<![a-z])[fdh]fma(?![a-z])|(?<![a-zA-Z])simt(?![a-z])|OpClassSimt")
"""General arithmetic units, regardless of the rest of the name: `sm80_xmma_gemm_f32f32_…_ffma_…`."""

_ELIGIBLE = re.compile(
    r"""
    aten::_?(?:
        mm | bmm | mv | dot_mm | matmul | linear | bilinear | _?trilinear | einsum | tensordot | inner | chain_matmul
        | linalg_multi_dot | linalg_matmul | addmm | addmv | addr | addbmm | baddbmm | _?addmm_activation
        | (?:scaled_|int_|grouped_|scaled_grouped_|weight_int[48]pack_|convert_weight_\w+|sparse_|cslt_sparse_)+mm\w*
        | (?:cudnn_|miopen_|mkldnn_|thnn_|slow_)*(?:depthwise_)?convolution\w* | (?:thnn_|slow_)?conv\w*?[123]d\w*
        | conv_tbc\w*
        | (?:thnn_|cudnn_|miopen_)?(?:lstm|gru|rnn_tanh|rnn_relu|rnn)(?:_cell|_backward)?
        | scaled_dot_product_\w*attention\w* | (?:flash|efficient|cudnn|fused)_attention_\w+
        | native_multi_head_attention | transformer_encoder_layer_fwd | triton_multi_head_attention
    )_?(?:\.\w+)?
    | (?:autograd::engine::evaluate_function:\ )?
      (?:\w*Convolution\w*? | \w*Conv[123]d\w*? | (?:Add|Addb|Baddb)?[Mm][mv] | Bmm | Addr | Linear | Matmul
        | ScaledDotProduct\w*Attention)Backward\d*
    """,
    re.VERBOSE,
)


FIRST_CAPABILITY = 7.0
"""The compute capability of NVIDIA's first devices with tensor cores, Volta."""
_WITHOUT = re.compile(r"\bGTX 16|\bT(?:400|500|550|600|1000|1200)\b|\bMX(?:450|550)\b|\bCMP 30HX\b")
"""Devices of Turing (compute capability 7.5) without tensor cores."""
_NVIDIA_WITH = re.compile(
    r"\b(?:V100S?|A2|A10[GM]?|A16|A30|A40|A[18]00|[HB][1238]00|H20|G[HB][23]00|T4G?|L4|L20|L40[SG]?)(?![A-Z0-9])"
    r"|\bRTX\b|\bTITAN V\b|\bQuadro GV100\b",
    re.IGNORECASE,
)
_NVIDIA_WITHOUT = re.compile(
    r"\b(?:GTX|NVS)\b|\b(?:Tesla|NVIDIA|Quadro) [CKMP]\d{1,4}[A-Z]?\b|\bTITAN Xp?\b", re.IGNORECASE
)
"""Models of NVIDIA, for files without compute capability."""
_AMD = re.compile(r"\bAMD\b|Radeon|Instinct|\bgfx\d", re.IGNORECASE)
_AMD_WITH = re.compile(
    r"\bMI(?:[1-9]\d\d)[A-Z]?\b|\bgfx(?:908|90a|94\d|95\d|11\d\d|12\d\d)\b|\bRX (?:7|9)\d{3}\b", re.I
)
_AMD_WITHOUT = re.compile(
    r"\bMI(?:\d\d?)\b|\bgfx(?:[0-8]\d\d|900|902|904|906|909|90c|10\d\d)\b|\bRX (?:5|6)\d{2,3}\b|\bVega\b|Radeon VII",
    re.IGNORECASE,
)
NVIDIA_WARP = 32


@dataclass(frozen=True, eq=False)
class TensorCores:
    """By row of `functions`, as bools. uses: of a kernel. eligible: of an operator."""

    uses: Array
    eligible: Array


def has_tensor_cores(name: str | None, compute: str | None, warp_size: int | None = None) -> bool | None:
    """Whether a device has tensor cores (AMD: matrix cores), by its model and compute capability; None: not known.

    compute: as "8.0"; for AMD its meaning differs, so only the model is used.
    """
    name = name or ""
    if _AMD.search(name) or (warp_size is not None and warp_size != NVIDIA_WARP):
        return True if _AMD_WITH.search(name) else False if _AMD_WITHOUT.search(name) else None
    if _WITHOUT.search(name) or (not compute and _NVIDIA_WITHOUT.search(name)):
        return False
    try:
        return float(compute or "") >= FIRST_CAPABILITY
    except ValueError:
        return True if _NVIDIA_WITH.search(name) else None


def device_has_tensor_cores(profile: Profile) -> bool | None:
    """Whether any device with work has tensor cores; None if unknown for one, and none is known to have them."""

    def build() -> bool | None:
        uses = tensor_cores_of(profile).uses
        if uses[device_work_of(profile).function].any():
            return True
        found: set[bool | None] = set()
        rows = profile.devices.to_pylist()
        for row in np.unique(device_work_of(profile).device).tolist():
            properties = rows[row] if row >= 0 else {}
            found.add(has_tensor_cores(properties.get("name"), properties.get("compute"), properties.get("warp_size")))
        return True if True in found else False if found == {False} else None

    return memoize(profile, "tensor cores there", build, pin=True)


def uses_tensor_cores(kernel: str) -> bool:
    """Whether the name of a kernel indicates tensor cores (AMD: matrix cores)."""
    return _USES.search(kernel) is not None and _DOES_NOT.search(kernel) is None


def may_use_tensor_cores(operator: str) -> bool:
    """Whether an operator of this name is a matrix product, a convolution or composed of them."""
    return _ELIGIBLE.fullmatch(operator) is not None


def tensor_cores_of(profile: Profile) -> TensorCores:
    """Both for every function of a profile; each distinct name is checked once."""

    def build() -> TensorCores:
        functions = functions_of(profile)
        # The last entry is for functions without a name (code -1).
        uses = np.array([uses_tensor_cores(name) for name in functions.names] + [False], bool)
        eligible = np.array([may_use_tensor_cores(name) for name in functions.names] + [False], bool)
        return TensorCores(uses[functions.name], eligible[functions.name])

    return memoize(profile, "tensor cores", build, pin=True)
