"""An approved plan that a job carries out: what is checked of it, whatever the tables' format."""
