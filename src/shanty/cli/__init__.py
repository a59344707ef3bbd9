"""The commands a person types. One file per command; errors become exit codes in main."""
