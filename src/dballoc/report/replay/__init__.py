"""The report of ``dballoc replay``: heap and CPU of every malloc under one recorded trace."""
