"""Forms: what a person types ↔ what the domain means. Pure: text in, values and errors by field out."""
