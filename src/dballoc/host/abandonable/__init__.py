"""Reading a process that may never answer: in a child that its parent can give up.

A page of a FUSE file, a file on a server that is down, or a process that holds its own mmap lock
can keep whoever reads it in the kernel for ever, where SIGKILL does not reach. So the whole look at
a target runs in a forked child. The child notes in shared memory what it is about to touch. Its
parent waits with a deadline, gives the child up where one touch takes too long, and starts another
one that leaves out what did not answer.
"""
