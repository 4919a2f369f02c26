"""Several ranks: communication, clocks, critical path, replay."""
