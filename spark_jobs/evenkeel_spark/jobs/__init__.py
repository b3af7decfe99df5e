"""The jobs that spark-submit starts, each with a short `main`."""
