"""The users and sandboxes in which others' programs and files are handled without root's rights."""
