"""The page of ratios."""
