"""The download clients, a file each: apt, Maven, cargo, pip, HTTP, archives."""
