"""What a server and its host do meanwhile: sampler, marks, counters, noise."""
