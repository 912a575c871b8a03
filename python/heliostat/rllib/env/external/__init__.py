"""Environments outside of the cluster, which act by themselves and send episodes over a socket."""
