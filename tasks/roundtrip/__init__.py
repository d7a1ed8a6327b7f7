"""Admission: a candidate skill tried on states that its lineages do not have, and where its preconditions are false."""
