"""Targets and encrypted secrets, on both databases."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from perfloom.domain.errors import Conflict, InvalidRequest, NotFound
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import Batch, JobSpec, JobState, Mpi, MpiFlavor
from perfloom.domain.targets import BatchQueue, CheckLine, CheckStatus, SchedulerName, Ssh, Target, TargetFacts
from perfloom.store import Store

HOSTILE = "$(touch /tmp/x)'\"; rm\n ü"
CLUSTER = Target(
    "cluster",
    ssh=Ssh("login.example", user="me", port=2222, jump=("a@b:1", "c"), host_keys=("login ssh-ed25519 AAAA",)),
    scheduler=SchedulerName.SLURM,
    directory=HOSTILE,
    modules=("gcc/13", HOSTILE),
    environment={"A": HOSTILE},
    mpi=MpiFlavor.OPENMPI,
    starters={"openmpi": "/opt/mpi/bin/mpirun"},
    counters=4,
)
FACTS = TargetFacts(
    HostFacts("login", cpus=4),
    compute=HostFacts("node7", paranoid=2),
    queues=(BatchQueue("debug", default=True, wall_time_s=60),),
    mpi_launchers={"openmpi": "mpirun"},
)
LINES = (CheckLine("Connection", CheckStatus.GOOD, "ok"), CheckLine("perf", CheckStatus.BAD, "none", "Install it."))


def test_local_target_always_exists(store: Store) -> None:
    assert [one.name for one in store.targets.list()] == ["local"]
    assert store.targets.get("local").target == Target("local")
    with pytest.raises(InvalidRequest):
        store.targets.delete("local")
    with pytest.raises(InvalidRequest, match="another name"):
        store.targets.save(replace(CLUSTER, name="local"))
    assert store.targets.all() == {"local": Target("local")}
    store.targets.save_check("local", FACTS, LINES)
    assert store.targets.get("local").facts == FACTS
    assert [one.name for one in store.targets.list()] == ["local"]


def test_target_is_stored_unchanged(store: Store) -> None:
    stored = store.targets.save(CLUSTER)
    assert stored.target == CLUSTER and stored.facts is None and stored.lines == ()
    store.targets.save(Target("Alpha"))
    assert [one.name for one in store.targets.list()] == ["local", "Alpha", "cluster"]
    store.targets.save_check("cluster", FACTS, LINES)
    checked = store.targets.get("cluster")
    assert (checked.facts, checked.lines) == (FACTS, LINES) and checked.checked is not None
    assert list(store.targets.all().items()) == [(one.name, one.target) for one in store.targets.list()]
    store.targets.save_check("cluster", None, LINES[:1])
    assert store.targets.get("cluster").facts == FACTS and store.targets.get("cluster").lines == LINES[:1]


def test_facts_are_dropped_when_target_moves(store: Store) -> None:
    store.targets.save(CLUSTER)
    store.targets.save_check("cluster", FACTS, LINES)
    assert store.targets.save(replace(CLUSTER, notes="ours", poll_s=9)).facts == FACTS
    elsewhere = store.targets.save(replace(CLUSTER, ssh=Ssh("other")))
    assert elsewhere.facts is None and elsewhere.lines == () and elsewhere.checked is None


def test_target_with_active_jobs_cannot_move(store: Store) -> None:
    """At another host they would be taken for lost."""
    store.targets.save(CLUSTER)
    job = store.jobs.create("record", JobSpec(target="cluster", command=("a",)).to_json(), "x")
    away = (
        replace(CLUSTER, ssh=Ssh("other")),
        replace(CLUSTER, ssh=None),
        replace(CLUSTER, scheduler=SchedulerName.LSF),
    )
    store.targets.save(away[0])
    store.targets.save(CLUSTER)
    store.jobs.transition(job.id, JobState.QUEUED, JobState.RUNNING)
    for other in away:
        with pytest.raises(Conflict, match="1 of its jobs have started there"):
            store.targets.save(other)
    assert CLUSTER.ssh is not None
    way = replace(CLUSTER.ssh, jump=(), password=True, host_keys=())
    assert store.targets.save(replace(CLUSTER, ssh=way, directory="/else")).target.ssh == way


def test_secrets_are_not_for_another_host_than_they_were_typed_for(store: Store) -> None:
    assert CLUSTER.ssh is not None
    ways = {"host": "evil", "user": "eve", "port": 2223, "jump": ("evil",), "config": not CLUSTER.ssh.config}
    job = store.jobs.create("record", JobSpec(target="cluster", command=("a",)).to_json(), "x")
    other = store.jobs.create("record", JobSpec(target="other", command=("a",)).to_json(), "y")
    own, others = ("target:cluster", f"job:{job.id}"), ("target:other", f"job:{other.id}")
    for word, value in ways.items():
        store.targets.save(CLUSTER)
        for subject in (*own, *others):
            store.credentials.put(subject, "node1", "k1", b"sealed", time.time() + 1000)
        store.targets.save(replace(CLUSTER, notes=word, ssh=replace(CLUSTER.ssh, connect_timeout_s=9)))
        assert all(map(store.credentials.get, (*own, *others))), "it leads where it led before"
        store.targets.save(replace(CLUSTER, ssh=replace(CLUSTER.ssh, **{word: value})))
        assert not any(map(store.credentials.get, own)) and all(map(store.credentials.get, others)), word


def test_target_with_active_jobs_cannot_be_deleted(store: Store) -> None:
    store.targets.save(CLUSTER)
    spec = JobSpec(target="cluster", command=("a",), mpi=Mpi(MpiFlavor.SRUN, 4), batch=Batch(queue=HOSTILE))
    job = store.jobs.create("record", spec.to_json(), "x")
    assert job.target == "cluster" and job.job_spec == spec
    assert [one.id for one in store.jobs.list(target="cluster")] == [job.id] and not store.jobs.list(target="local")
    with pytest.raises(Conflict, match="1 of its jobs"):
        store.targets.delete("cluster")
    store.jobs.transition(job.id, JobState.QUEUED, JobState.FAILED)
    store.credentials.put("target:cluster", "node1", "k1", b"typed for a check", time.time() + 1000)
    store.targets.delete("cluster")
    assert store.credentials.get("target:cluster") == ()
    with pytest.raises(NotFound):
        store.targets.get("cluster")
    assert store.targets.find("cluster") is None


def test_encrypted_secrets_expire(store: Store) -> None:
    soon = time.time() + 1000
    store.credentials.put("job:1", "node1", "k1", b"\x00\xff one", soon)
    store.credentials.put("job:1", "node2", "k2", b"two", soon)
    store.credentials.put("job:1", "node1", "k1", b"again", soon)
    store.credentials.put("job:2", "node1", "k1", b"late", time.time() - 1)
    assert [(one.host, one.key_id, one.sealed) for one in store.credentials.get("job:1")] == [
        ("node1", "k1", b"again"),
        ("node2", "k2", b"two"),
    ]
    assert store.credentials.get("job:2") == ()
    store.credentials.delete("job:1")
    assert store.credentials.get("job:1") == ()


def test_worker_publishes_key(store: Store) -> None:
    store.hosts.publish_key("node1", "k1", b"\x01\x02")
    store.hosts.publish(HostFacts("node1"))
    store.hosts.heartbeat("node1")
    host = store.hosts.get("node1")
    assert (host.key_id, host.public_key, host.facts) == ("k1", b"\x01\x02", HostFacts("node1"))
    store.hosts.publish_key("node1", "k2", b"\x03")
    assert store.hosts.get("node1").facts == HostFacts("node1") and store.hosts.get("node1").key_id == "k2"
