"""The verbs that search: they try until they have an answer, and resume from what they tried."""
