"""The steps between the Spark jobs: decide, plan, approve, publish, report."""
