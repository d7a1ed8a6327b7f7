"""Measurements whose figures the documentation quotes; never part of the tests."""
