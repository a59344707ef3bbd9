"""Ranks that work together: where this process stands, the group it joins, what it exchanges."""
