"""deploy/: the compose file and the manifests, as far as they can be tested without an engine."""
