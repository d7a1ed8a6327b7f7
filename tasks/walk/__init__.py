"""Walks an expert kernel backward, one optimization at a time; see walk.py."""
