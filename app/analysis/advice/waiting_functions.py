"""Functions that wait: locks, condition variables, sleeps, barriers, and spin loops of OpenMP and MPI libraries.

A sample whose call stack has one of these counts as waiting, although the CPU may be busy: many of them spin.
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
        r"(take_gil|PyThread_acquire_lock_timed)",
    ),
    "OpenMP": (
        r"gomp_(team_)?barrier_wait\w*",
        r"GOMP_barrier",
        r"__kmpc?_(fork_|join_|hyper_|dist_|tree_)?(barrier|wait|yield)\w*",
        r"(__kmp_flag|kmp_flag)_\w+::wait\w*",
    ),
    "MPI": (
        r"P?MPI_(Wait(all|any|some)?|Test(all|any|some)?|Barrier|Recv|M?[Pp]robe|Sendrecv)",
        r"(opal_progress|ompi_request_(default_)?wait\w*|mca_\w+_progress|ompi_sync_wait_mt)",
        r"MPI(D|DI|R)_\w*(progress|Progress|wait|Wait)\w*",
        r"(uc[pt]_worker_progress|psm2_mq_\w+|fi_cq_read\w*)",
    ),
}
"""Regular expressions of complete names, by what they wait for. A version or @plt may follow a name."""
WAITING_PATTERN = "^(?:" + "|".join(name for names in WAITING_FUNCTIONS.values() for name in names) + ")(?:@.*)?$"
