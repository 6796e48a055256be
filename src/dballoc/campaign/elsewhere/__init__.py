"""A campaign's blocks on other hosts: what a host is asked and answers, and which is asked."""
