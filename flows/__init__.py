"""Composition: the command line, the flows, their deployments."""
