"""Users and sandboxes, to run others' programs and parse their files without root's rights."""
