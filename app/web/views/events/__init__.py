"""The pages below /events: formulas of users and of the installation."""
