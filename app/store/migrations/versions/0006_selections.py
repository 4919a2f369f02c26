"""Named selections of results."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "selections",
        sa.Column("result_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["result_id"], ["results.id"], name=op.f("fk_selections_result_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("result_id", "name", name=op.f("pk_selections")),
    )
