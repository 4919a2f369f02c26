"""The page of ratios, and flame graphs that formulas color."""
