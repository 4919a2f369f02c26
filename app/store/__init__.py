"""The store: profiles in columns on disk, and a catalogue of everything in SQL."""
