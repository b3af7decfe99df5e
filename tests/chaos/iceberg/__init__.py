"""What differs where the tables that suffer faults are Iceberg tables."""
