"""The question: how does a run's set-up differ from a post's."""
