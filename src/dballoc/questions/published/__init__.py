"""The question: how do the results agree with a post's."""
