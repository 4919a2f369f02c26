"""The web application: pages, API, sessions and uploads."""
