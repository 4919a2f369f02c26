"""Targets, encrypted secrets, public keys of workers, and the target of a job."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "targets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("target", sa.JSON(), nullable=False),
        sa.Column("changed", sa.Double(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=True),
        sa.Column("lines", sa.JSON(), nullable=True),
        sa.Column("checked", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_targets")),
    )
    op.create_table(
        "credentials",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("subject", "key_id", name=op.f("pk_credentials")),
    )
    op.create_index(op.f("ix_credentials_expires"), "credentials", ["expires"], unique=False)
    op.add_column("hosts", sa.Column("key_id", sa.Text(), nullable=True))
    op.add_column("hosts", sa.Column("public_key", sa.Text(), nullable=True))
    # Every job of before ran on the worker's own machine.
    op.add_column("jobs", sa.Column("target", sa.Text(), nullable=False, server_default="local"))
    op.create_index(op.f("ix_jobs_target_state"), "jobs", ["target", "state"], unique=False)
