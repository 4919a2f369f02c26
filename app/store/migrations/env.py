"""What Alembic runs: the connection, under its lock, is handed over by `perfloom.store.upgrade`."""

from alembic import context

from perfloom.store.models import load_all

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=load_all(),
    render_as_batch=True,
    compare_type=True,
)
context.run_migrations()
