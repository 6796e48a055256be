"""How a library of ours gets into a program, and is asked."""
