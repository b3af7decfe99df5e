"""Table specs: their fields, how a file is loaded and checked, where a spec may reach."""
