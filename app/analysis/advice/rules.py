"""The rules of advice, one row each: what is looked at, from where on it is told, and what to do about it."""

from . import detectors as told
from .model import Rule

RULES = (
    Rule(
        "dataloader",
        "Steps wait for data",
        5,
        "%",
        "share of the steps in which devices did nothing and the host waited for a batch",
        "steps",
        told.dataloader,
        "Give the DataLoader more workers (num_workers), let them live on (persistent_workers=True) and work ahead "
        "(prefetch_factor); move decoding and augmentation to the workers or to the device.",
    ),
    Rule(
        "gpu-utilization",
        "A device is idle much of the time",
        50,
        "%",
        "share of the time in which the device did anything",
        "critical-path",
        told.utilization,
        "Look on the critical path at what devices wait for. Often a larger batch, fewer synchronizing calls or work "
        "prepared ahead by other threads helps.",
        triggers_below=True,
    ),
    Rule(
        "launch-bound",
        "Kernels are too small for what it takes to launch them",
        30,
        "%",
        "share of launches whose kernels, copies and sets take less time than the call; a CUDA graph is one launch",
        "kernels",
        told.launch_bound,
        'Capture the step in a CUDA graph (torch.cuda.graph, or torch.compile with mode="reduce-overhead"), fuse small '
        "operators with torch.compile, or make the batch larger.",
    ),
    Rule(
        "graph-delays",
        "CUDA graphs are launched late",
        10,
        "%",
        "share of the steps in which devices waited until the host launched the next CUDA graph",
        "kernels",
        told.graph_delays,
        "Launch the next replay before the device is done with this one: prepare inputs on another thread, copy them "
        "with non_blocking=True from pinned memory, and do not wait for results between replays. Put several steps or "
        "more of the step into one graph.",
    ),
    Rule(
        "synchronising",
        "The host waits for devices",
        10,
        "%",
        "share of the steps that the host spends in calls that wait for a device",
        "critical-path",
        told.synchronizing,
        "Look for .item(), .cpu(), print of tensors, nonzero and boolean masks in the loop, and for "
        "torch.cuda.synchronize; copy with non_blocking=True from pinned memory; read losses only every few steps.",
    ),
    Rule(
        "pageable-copies",
        "Copies from memory that is not pinned",
        1,
        "%",
        "share of the steps that goes to copies of pageable memory",
        "kernels",
        told.pageable,
        "Give the DataLoader pin_memory=True and copy with non_blocking=True: such copies are faster and run beside "
        "kernels.",
    ),
    Rule(
        "exposed-communication",
        "Communication is not hidden behind computation",
        10,
        "%",
        "share of the steps in which kernels only communicate",
        "communication",
        told.exposed_communication,
        "Other buckets of DDP (bucket_cap_mb), gradient_as_bucket_view, gradients of several steps accumulated "
        "(no_sync), compressed gradients (bf16 hook), or prefetching in FSDP.",
    ),
    Rule(
        "stragglers",
        "Ranks wait for each other",
        20,
        "%",
        "share of the time in collectives that ranks wait for the last one",
        "communication",
        told.stragglers,
        "Compare the steps of the rank that comes last with those of others: its input, its share of the work, its "
        "host.",
    ),
    Rule(
        "small-collectives",
        "Many small collectives",
        50,
        "%",
        "share of collectives that move less than 1 MiB",
        "communication",
        told.small_collectives,
        "Put tensors together before they are sent: larger buckets, coalesced collectives, fewer logged values.",
    ),
    Rule(
        "tensor-cores",
        "Tensor cores are not used where they could be",
        20,
        "%",
        "share of the time of devices in operators that could use tensor cores, in kernels that do not",
        "operators",
        told.tensor_cores,
        'Use torch.autocast with bfloat16 or float16, or allow TF32 with torch.set_float32_matmul_precision("high"); '
        "keep "
        "sizes multiples of 8.",
    ),
    Rule(
        "small-grids",
        "Kernels do not fill the device",
        30,
        "%",
        "share of the time of kernels with fewer blocks than the device has multiprocessors",
        "kernels",
        told.small_grids,
        "Make the batch larger, fuse operators, or let independent work run beside it on other streams.",
    ),
    Rule(
        "memory-full",
        "Memory of a device is nearly full",
        90,
        "%",
        "share of a device's memory that was reserved",
        "memory",
        told.memory_full,
        "Make the batch smaller, accumulate gradients, use activation checkpointing or mixed precision, or shard "
        "states.",
    ),
    Rule(
        "memory-free",
        "There is room for a larger batch",
        50,
        "%",
        "share of a device's memory that was reserved, where its multiprocessors were not filled",
        "memory",
        told.memory_free,
        "Make the batch larger: the device has memory left, and is not filled.",
        triggers_below=True,
    ),
    Rule(
        "fragmentation",
        "Memory is fragmented",
        20,
        "%",
        "share of reserved memory that was not in use at the peak",
        "memory",
        told.fragmentation,
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and shapes that change less.",
    ),
    Rule(
        "allocator-retries",
        "The allocator ran out of memory",
        1,
        "",
        "how often the allocator had to give memory back and try again, or failed",
        "memory",
        told.retries,
        "Make the batch smaller or free what is not needed before the peak; each retry waits for the device.",
    ),
    Rule(
        "system-allocations",
        "Memory is allocated from the driver in every step",
        1,
        "",
        "calls of cudaMalloc and cudaFree a step",
        "memory",
        told.system_allocations,
        "Let shapes repeat so that the allocator can use its blocks again, do not call torch.cuda.empty_cache in the "
        "loop, or use expandable segments.",
    ),
    Rule(
        "growth",
        "Memory grows with every step",
        1024,
        "bytes",
        "by how much more is left allocated after each step",
        "memory",
        told.growth,
        "Something keeps tensors alive: a list of losses with their graphs (use .item() or .detach()), hooks, caches.",
    ),
    Rule(
        "compilation",
        "Code is compiled while it is measured",
        1,
        "%",
        "share of the steps in which the host compiles",
        "flamegraph",
        told.compilation,
        "Look with TORCH_LOGS=recompiles at why; mark dynamic dimensions (torch._dynamo.mark_dynamic), keep shapes "
        "fixed, "
        "and warm up before recording.",
    ),
    Rule(
        "data-parallel",
        "DataParallel instead of DistributedDataParallel",
        1,
        "%",
        "share of the steps in DataParallel.forward",
        "operators",
        told.data_parallel,
        "Use DistributedDataParallel, one process for each device: DataParallel copies the model every step and shares "
        "one interpreter.",
    ),
    Rule(
        "optimizer-kernels",
        "The optimizer launches many small kernels",
        200,
        "",
        "launches that one step of the optimizer makes",
        "operators",
        told.optimizer_kernels,
        "Use the optimizer with fused=True, or foreach=True where it has none.",
    ),
    Rule(
        "uneven-steps",
        "Steps are uneven",
        20,
        "%",
        "by how much the longest step takes longer than the middle one",
        "steps",
        told.uneven_steps,
        "Open the longest step alone and compare it with another: data, evaluation, saving, garbage collection of "
        "Python, recompilation.",
    ),
    Rule(
        "profiler-overhead",
        "The profiler itself took time",
        5,
        "%",
        "share of the steps that goes to the profiler",
        "timeline",
        told.profiler_overhead,
        "Record fewer steps after a longer warm-up, and without stacks, shapes or memory: what is recorded now says "
        "too "
        "much of the profiler.",
    ),
)
"""Every rule, in the order in which pages list them."""
