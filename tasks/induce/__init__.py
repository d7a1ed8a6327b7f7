"""Candidate skills from the evidence: transitions and probes in, cards out."""
