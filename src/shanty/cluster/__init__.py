"""Nodes as the operator sees them: reach them, ask them, plan a run, start it, follow it."""
