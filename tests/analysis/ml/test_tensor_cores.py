"""Names of kernels and operators as NVIDIA, AMD and PyTorch write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from perfloom.analysis.core.schema import records
from perfloom.analysis.ml.kernel_names import shorten_kernel_name
from perfloom.analysis.ml.tensor_cores import (
    device_has_tensor_cores,
    has_tensor_cores,
    may_use_tensor_cores,
    uses_tensor_cores,
)
from perfloom.analysis.tables import TABLES
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import SCHEMAS
from tests.analysis.stepped import Trace

ON_TENSOR_CORES = """
volta_h884gemm_128x64_ldg8_nn
volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn
turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1
turing_int8_i8816cudnn_int8_128x128_ldg16_relu_exp_small_nhwc_tn_v1
ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x5_nn
ampere_s16816gemm_bf16_128x64_ldg8_stages_64x3_tn
void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(cutlass_80_tensorop_s1688gemm::Params)
void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_32x32_16x5_nn_align1>(x)
void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(x)
sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_g1_tensor16x8x8
_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmNS6_4warp11MmaTensorOpINS7_ILi32ELi64EEE
sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel
nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT
void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>, false>(x)
void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<traits<64>>(x)
fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)
cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_7_64x64x64_4x1x1_kernel0_0
Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN_LDSB0
void ck::kernel_gemm_xdlops_v2r3<ck::GridwiseGemm>(x)
igemm_fwd_gtcx2_nhwc_fp16_bx0_ex1_bt128x128x32
"""
NOT_ON_TENSOR_CORES = """
volta_sgemm_64x64_nt
ampere_sgemm_128x64_nn
ampere_scudnn_128x64_relu_xregs_large_nn_v1
void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm_128x32_8x5_nn_align1::Params)
sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__51
fmha_cutlassF_f32_aligned_64x64_rf_sm70(x)
void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>>(int)
ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)
Cijk_Ailk_Bljk_SB_MT32x32x8_SN_K1
triton_poi_fused_add_0
implicit_convolve_sgemm
"""
ELIGIBLE = """
aten::mm aten::bmm aten::addmm aten::addmm_ aten::linear aten::matmul aten::einsum aten::conv2d aten::convolution
aten::_convolution aten::cudnn_convolution aten::convolution_backward aten::cudnn_convolution_backward_weight
aten::conv_transpose2d aten::lstm aten::_cudnn_rnn aten::scaled_dot_product_attention aten::_flash_attention_forward
aten::_scaled_dot_product_efficient_attention_backward aten::_scaled_mm aten::_int_mm AddmmBackward0 MmBackward
CudnnConvolutionBackward ConvolutionBackward0 BmmBackward0 autograd::engine::evaluate_function:AddmmBackward0
"""
NOT_ELIGIBLE = """
aten::add aten::mean aten::min aten::sum aten::prelu aten::constant_pad_nd aten::linspace aten::conj aten::normal_
AddBackward0 CommBackward NativeLayerNormBackward0 aten::_thnn_fused_lstm_cell
"""


def test_kernels() -> None:
    assert [name for name in ON_TENSOR_CORES.strip().splitlines() if not uses_tensor_cores(name)] == []
    assert [name for name in NOT_ON_TENSOR_CORES.strip().splitlines() if uses_tensor_cores(name)] == []


def test_operators() -> None:
    names = [name.replace("function:", "function: ") for name in ELIGIBLE.split()]
    assert [name for name in names if not may_use_tensor_cores(name)] == []
    assert [name for name in NOT_ELIGIBLE.split() if may_use_tensor_cores(name)] == []


def test_short_names() -> None:
    for name, short in (
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::Array<char*, 3> >(int)",
            "vectorized_elementwise_kernel · CUDAFunctor_add",
        ),
        (
            "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>(cutlass_80_tensorop_s1688gemm::Params)",
            "cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4",
        ),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 3>(float*)", "CatArrayBatchedCopy"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(x)", "gemvx::kernel"),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::MeanOps<float>>>(x)",
            "reduce_kernel · MeanOps",
        ),
        ("volta_sgemm_64x64_nt", "volta_sgemm_64x64_nt"),
        (
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long)",
            "ncclKernel_AllReduce_RING_LL_Sum_float",
        ),
    ):
        assert shorten_kernel_name(name) == short
    # Whatever a name is, something is shown of it.
    for odd in (
        "<",
        "((((",
        "a<b",
        ">>>",
        "<>()",
        "::",
        "f<<<1>>>",
        "operator()",
        "x" * 10_000,
        "(anonymous namespace)::",
    ):
        assert shorten_kernel_name(odd), odd


@pytest.mark.parametrize(
    ("name", "compute", "warp_size", "has"),
    [
        ("Tesla V100-SXM2-32GB", "7.0", 32, True),
        ("NVIDIA A100", "8.0", 32, True),
        ("NVIDIA GeForce RTX 2080 Ti", "7.5", 32, True),
        ("NVIDIA GeForce GTX 1660 Ti", "7.5", 32, False),
        ("NVIDIA T1000 8GB", "7.5", 32, False),
        ("Tesla T4", "7.5", 32, True),
        ("NVIDIA GeForce GTX 1080 Ti", "6.1", 32, False),
        ("Tesla P100-PCIE-16GB", "6.0", 32, False),
        ("NVIDIA A100", None, None, True),
        ("NVIDIA A100-SXM4-80GB", None, None, True),
        ("NVIDIA H100 80GB HBM3", None, None, True),
        ("NVIDIA GH200 480GB", None, 32, True),
        ("NVIDIA L40S", None, None, True),
        ("NVIDIA A10G", None, None, True),
        ("Tesla T4", None, None, True),
        ("NVIDIA GeForce RTX 4090", None, None, True),
        ("NVIDIA TITAN V", None, None, True),
        ("NVIDIA GeForce GTX 1660 Ti", None, None, False),
        ("NVIDIA T1000 8GB", None, None, False),
        ("Tesla P100-PCIE-16GB", None, None, False),
        ("Tesla K80", None, None, False),
        ("NVIDIA A1000", None, None, None),
        ("GPU 0", None, None, None),
        ("A device", "many", None, None),
        (None, "8.6", None, True),
        ("AMD Instinct MI250X / MI250", "9.0", 64, True),
        ("AMD Instinct MI50", "9.0", 64, False),
        ("AMD Radeon RX 7900 XTX", "11.0", 32, True),
        ("AMD Radeon RX 6800", "10.3", 32, False),
        ("AMD Radeon Graphics", "9.0", 64, None),
        (None, "9.0", 64, None),
    ],
)
def test_devices_with_tensor_cores(name: str | None, compute: str | None, warp_size: int | None, has: bool) -> None:
    assert has_tensor_cores(name, compute, warp_size) is has


def on_device(kernel: str, **device: Any) -> Profile:
    """A kernel on a device."""
    made = Trace()
    host, stream = made.thread(), made.stream()
    made.step(host, 0, 0, 100)
    made.slice(host, "aten::mm", 5, 20)
    made.work(stream, kernel, 30, 50, made.slice(host, "cudaLaunchKernel", 10, 5, "runtime"))
    row = {"kind": "gpu", "device": 0, **device}
    return replace(made.finish(), devices=pa.Table.from_pylist([row], schema=SCHEMAS["devices"]))


def test_a_device_without_has_no_share_of_them() -> None:
    old = on_device("gemm", name="Tesla P100", compute="6.0")
    (row,) = records(TABLES["devices"].rows(old, Selection()))
    assert device_has_tensor_cores(old) is False and row["tensor_core_time_percent"] is None
    (row,) = records(TABLES["devices"].rows(on_device("gemm", name="A100", compute="8.0"), Selection()))
    assert row["tensor_core_time_percent"] == 0
    (row,) = records(TABLES["devices"].rows(on_device("gemm"), Selection()))
    assert device_has_tensor_cores(on_device("gemm")) is None and row["tensor_core_time_percent"] == 0
    # Names of kernels know better.
    odd = on_device("volta_h884gemm_128x64_ldg8_nn", name="Tesla P100", compute="6.0")
    (row,) = records(TABLES["devices"].rows(odd, Selection()))
    assert device_has_tensor_cores(odd) is True and row["tensor_core_time_percent"] == 100
