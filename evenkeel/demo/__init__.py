"""Run the whole pipeline on this machine: make run and make up."""
