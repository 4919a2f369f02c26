"""Functions that wait: locks, condition variables, sleeps, barriers, and spin loops of OpenMP and MPI libraries.

The only list of them: of advice, of the matrix and of the balance of ranks. docs/reference/waiting-functions.md is
generated from it. Many of these functions spin, so a waiting thread uses as much CPU time as one that computes.
"""

WAITING_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "locks": (
        r"_*(GI_)?_*pthread_(mutex|spin)_(timed|clock|cond_)?lock\w*",
        r"_*(GI_)?_*pthread_rwlock_(timed|clock)?(rd|wr)lock\w*",
        r"_*lll_lock_wait\w*",
        r"(native|pv)_queued_spin_lock_slowpath",
        r"_raw_(spin|read|write)_lock\w*",
        r"(rwsem_down_\w+|mutex_spin_on_owner|__mutex_lock\w*|osq_lock)",
    ),
    "sleeps and conditions": (
        r"_*futex_\w*wait\w*",
        r"do_futex",
        r"_*pthread_(cond_\w*wait|barrier_wait|join|timedjoin)\w*",
        r"_*sem_(timed)?wait\w*",
        r"_*(GI_)?_*(p?poll|epoll_p?wait|p?select|(clock_)?nanosleep|sched_yield|usleep)",
        r"__\w+_sys_(futex\w*|p?poll|epoll_p?wait2?|p?select6?|(clock_)?nanosleep|sched_yield)(_time\d+)?",
        r"(do_sched_yield|do_(sys_)?poll|do_epoll_wait|ep_poll|(core_sys|do)_select|(hrtimer|do)_nanosleep|common_nsleep)",
        r"(take_gil|PyThread_acquire_lock_timed)",
    ),
    "OpenMP": (
        r"gomp_(team_)?barrier_wait\w*",
        r"gomp_(mutex_lock|sem_wait)_slow",
        r"(GOMP_barrier|GOMP_taskwait|GOMP_taskgroup_end|GOMP_critical(_name)?_start|GOMP_ordered_start)",
        r"__kmpc?_(fork_|join_|hyper_|dist_|tree_|linear_)?(barrier|wait|yield)\w*",
        r"__kmpc_(omp_)?(taskwait|critical|ordered)\w*",
        r"__kmp_acquire_\w+",
        r"(__kmp_flag|kmp_flag)_\w+::wait\w*",
    ),
    "MPI": (
        r"P?MPIX?_[A-Z]\w*",
        r"p?mpi_(init|finalize|barrier|i?[bsr]?send|i?recv|sendrecv(_replace)?|i?m?probe|mrecv"
        r"|(wait|test)(all|any|some)?|i?(bcast|(all)?reduce|(all)?gatherv?|scatterv?|alltoall[vw]?|(ex)?scan)"
        r"|(reduce_scatter|win|file|comm)_\w+?)(_f08)?_{1,2}",
        r"(ompi|opal|orte|prte|mca|pmix|PMIx)_\w+",
        r"(MPI(DI?G?|R|DU|IR?|C)|MPL|I_MPI)_\w+",
        r"(uc[pst]_\w+|psm2_\w+|fi_cq_s?read\w*|(ibv|mlx[45])_poll_cq\w*)",
    ),
}
"""Regular expressions of complete names, by what they wait for. A version or @plt may follow a name."""
WAITING_MODULES: dict[str, tuple[str, ...]] = {
    "MPI": (
        r"lib(p?mpi|mpich|mpi_\w+|mpifort|mpicxx|open-(pal|rte)|prrte|pmix|pmi2?|uc[cmpst]\w*|fabric|psm2|hcoll)[.-].*",
        r"mca_\w+\.so.*",
    ),
}
"""Regular expressions of file names of libraries, by what they wait for: everything that they call counts. Without
frame pointers or symbols, their functions have no names and their callers are unknown."""
SPINNING_MODULES = (r"lib(gomp|omp|iomp5)[.-].*",)
"""Libraries in which the functions without a name wait, themselves only: they call the functions of the program."""
RESUMING_FUNCTIONS = (
    r"gomp_barrier_handle_tasks",
    r"__kmp_(invoke_task|execute_tasks)\w*",
)
"""Functions that wait in name only: they run tasks of the program in a barrier, which count as computing."""

_SUFFIX = r"(?:@.*)?"
_additional: tuple[str, ...] = ()


def set_additional_patterns(patterns: tuple[str, ...]) -> None:
    """Let these also count as waiting, in this process: regular expressions of complete names of functions, or of file
    names of libraries. They replace the previous ones."""
    global _additional
    _additional = patterns


def waiting_pattern() -> str:
    """The expression of the names of all functions that wait."""
    return _join([*(name for names in WAITING_FUNCTIONS.values() for name in names), *_additional], _SUFFIX)


def waiting_module_pattern() -> str:
    """The expression of the file names of all libraries that wait."""
    return _join([*(name for names in WAITING_MODULES.values() for name in names), *_additional])


def spinning_module_pattern() -> str:
    """The expression of the file names of libraries whose functions without a name wait."""
    return _join(SPINNING_MODULES)


def resuming_pattern() -> str:
    """The expression of the names of functions below which the program computes again."""
    return _join(RESUMING_FUNCTIONS, _SUFFIX)


def _join(patterns: "list[str] | tuple[str, ...]", suffix: str = "") -> str:
    return f"^(?:{'|'.join(f'(?:{pattern})' for pattern in patterns)}){suffix}$"
