"""The page of formulas."""
