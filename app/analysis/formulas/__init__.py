"""Formulas over events: the built-in ones, which events they mean in a profile, and their values."""
