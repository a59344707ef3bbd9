"""What a node is asked to do, apart from training: one module per task, each with one ``run``."""
