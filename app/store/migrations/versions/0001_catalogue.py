"""The first tables: results with their tags and comparisons, jobs, presets, hosts, leases, derived events."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "checks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("question", sa.JSON(), nullable=False),
        sa.Column("answer", sa.JSON(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checks")),
    )
    op.create_index(op.f("ix_checks_created"), "checks", ["created"], unique=False)
    op.create_table(
        "derived_events",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("formula", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_derived_events")),
    )
    op.create_table(
        "hosts",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=True),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_hosts")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "presets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("changed", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_presets")),
    )
    op.create_table(
        "results",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("meta", sa.JSON(), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("threads", sa.BigInteger(), nullable=False),
        sa.Column("duration_ns", sa.BigInteger(), nullable=True),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("reasons", sa.JSON(), nullable=False),
        sa.Column("originals", sa.JSON(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("missing", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_results")),
    )
    op.create_index(op.f("ix_results_created"), "results", ["created"], unique=False)
    op.create_index(op.f("ix_results_name"), "results", ["name"], unique=False)
    op.create_table(
        "comparisons",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("base", sa.Text(), nullable=False),
        sa.Column("other", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["base"], ["results.id"], name=op.f("fk_comparisons_base"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["other"], ["results.id"], name=op.f("fk_comparisons_other"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_comparisons")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("progress", sa.Double(), nullable=True),
        sa.Column("progress_text", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("changed", sa.Double(), nullable=False),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("process_group", sa.BigInteger(), nullable=True),
        sa.Column("argv", sa.JSON(), nullable=True),
        sa.Column("outcome", sa.JSON(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("result_id", sa.Text(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=True),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("history", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["result_id"], ["results.id"], name=op.f("fk_jobs_result_id"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_created"), "jobs", ["created"], unique=False)
    op.create_index(op.f("ix_jobs_state_due_at"), "jobs", ["state", "due_at"], unique=False)
    op.create_table(
        "tags",
        sa.Column("result_id", sa.Text(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["result_id"], ["results.id"], name=op.f("fk_tags_result_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("result_id", "tag", name=op.f("pk_tags")),
    )
    op.create_index(op.f("ix_tags_tag"), "tags", ["tag"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_tags_tag"), table_name="tags")
    op.drop_table("tags")
    op.drop_index(op.f("ix_jobs_state_due_at"), table_name="jobs")
    op.drop_index(op.f("ix_jobs_created"), table_name="jobs")
    op.drop_table("jobs")
    op.drop_table("comparisons")
    op.drop_index(op.f("ix_results_name"), table_name="results")
    op.drop_index(op.f("ix_results_created"), table_name="results")
    op.drop_table("results")
    op.drop_table("presets")
    op.drop_table("leases")
    op.drop_table("hosts")
    op.drop_table("derived_events")
    op.drop_index(op.f("ix_checks_created"), table_name="checks")
    op.drop_table("checks")
