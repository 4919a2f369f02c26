"""Tests of recording: fields, recorders, schedulers, plans and the probe of a target."""
