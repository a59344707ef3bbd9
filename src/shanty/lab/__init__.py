"""Rehearsal boards on one Linux machine: namespaces with a cable, an sshd and faults on demand."""
