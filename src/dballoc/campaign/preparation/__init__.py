"""What is made ready before the first start: builds, allocators, data, proof."""
