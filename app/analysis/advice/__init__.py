"""Advice: rules, detectors and findings."""
