"""Adapters of the tests, as docs/how-to/add-a-scheduler.md describes them."""
