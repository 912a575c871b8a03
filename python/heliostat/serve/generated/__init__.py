"""Messages and stub of the service that Serve's gRPC server has of its own, under Ray's names."""
