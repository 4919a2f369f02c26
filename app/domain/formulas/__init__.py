"""Formulas over events: their syntax, and files of them."""
