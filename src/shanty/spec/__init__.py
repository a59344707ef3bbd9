"""What is asked of a run: frozen values that both sides read, and arithmetic on them. Stdlib only."""
