"""What is asked of a run: frozen values both sides read, and arithmetic on them. Stdlib only."""
