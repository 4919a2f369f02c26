"""When a result was recorded, beside when it was stored."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("results", sa.Column("recorded", sa.Double(), nullable=True))
    op.create_index(op.f("ix_results_recorded"), "results", ["recorded"], unique=False)
    results = sa.table(
        "results", sa.column("id"), sa.column("job_id"), sa.column("meta", sa.JSON()), sa.column("recorded")
    )
    jobs = sa.table("jobs", sa.column("id"), sa.column("kind"), sa.column("started"))
    connection = op.get_bind()
    recording = sa.select(jobs.c.id, jobs.c.started).where(jobs.c.kind == "record", jobs.c.started.is_not(None))
    started = {row.id: row.started for row in connection.execute(recording)}
    for id, job, meta in connection.execute(sa.select(results.c.id, results.c.job_id, results.c.meta)).all():
        at = (meta or {}).get("start_epoch_ns")
        recorded = at / 1e9 if isinstance(at, int) and at > 0 else started.get(job)
        if recorded is not None:
            connection.execute(sa.update(results).where(results.c.id == id).values(recorded=recorded))
