"""The set-up of a run beside the set-up that a published post states."""
