"""Names of ``train.torch`` where Ray has them."""
