"""Tracking tools in a training function: ``wandb`` and ``mlflow``, imported when they are used."""
