"""One question over campaigns of several hosts: what can be pooled, and the verdicts over hosts."""
