"""From blocks to the batches of a training loop."""
