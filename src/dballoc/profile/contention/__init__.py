"""What threads wait for, and how much of it is malloc."""
