"""The agent: starts a node's workers, watches them, and knows why one died. Stdlib only."""
