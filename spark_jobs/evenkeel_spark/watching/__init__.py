"""The watch: jobs that look at the load within the day, batch by batch."""
