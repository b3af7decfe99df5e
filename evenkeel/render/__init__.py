"""Format numbers and draw charts for pages and reports."""
