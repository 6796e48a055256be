"""What a process shows of its malloc: the file that it is in, and the settings in force."""
