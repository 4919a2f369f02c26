"""Remove the tables of comparisons and derived events: no version ever filled them."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.drop_table("comparisons")
    op.drop_table("derived_events")
