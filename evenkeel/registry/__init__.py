"""The registry: epochs, run folders, profiles and the store that keeps them."""
